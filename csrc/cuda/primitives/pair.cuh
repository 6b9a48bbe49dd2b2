// Two neighbouring lines as one: elements and values in pairs, whose halves are never combined.
#pragma once
#include <type_traits>

#include "../../common/operators.h"

namespace torch_reductions {

template <class A>
struct alignas(2 * sizeof(A)) Pair {
  A first, second;
};

// Combines first with first and second with second: the bits are those of each line alone.
template <template <class> class Op, class A>
struct InPairs {
  using Value = Pair<A>;
  static constexpr bool commutes = Op<A>::commutes;
  static HOST_DEVICE Value identity() { return {Op<A>::identity(), Op<A>::identity()}; }
  static HOST_DEVICE Value combine(Value left, Value right) {
    return {Op<A>::combine(left.first, right.first), Op<A>::combine(left.second, right.second)};
  }
};
template <class A>
struct Sum<Pair<A>> : InPairs<Sum, A> {};
template <class A>
struct Prod<Pair<A>> : InPairs<Prod, A> {};

template <class T>
struct IsPair : std::false_type {};
template <class A>
struct IsPair<Pair<A>> : std::true_type {};

}  // namespace torch_reductions
