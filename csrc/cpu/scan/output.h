// Shared by the CPU's rungs: the operator of each function, and how its values become results.
#pragma once
#include "../../common/args.h"
#include "../../common/operators.h"
#include "../convert.h"

namespace torch_reductions::cpu::scan {

// body.operator()<S, R, Op>() with the storage of the elements and of the results, and the operator of the function.
// cummin is cummax of flipped values.
template <class Body>
void with_types(const ScanArgs& args, Body&& body) {
  if (args.input_dtype != args.dtype) {
    const auto into_int64 = [&]<class S>(std::type_identity<S>) {
      if constexpr (std::is_integral_v<S> || kIsBool<S>) {
        if (args.function == Scan::cumsum) body.template operator()<S, int64_t, Sum<int64_t>>();
        else body.template operator()<S, int64_t, Prod<int64_t>>();
      }
    };
    if (args.input_dtype == Dtype::boolean) return into_int64(std::type_identity<Bool>());
    return with_storage(args.input_dtype, into_int64);
  }
  with_storage(args.dtype, [&]<class S>(std::type_identity<S>) {
    using A = Accumulator<S>;
    switch (args.function) {
      case Scan::cumsum: return body.template operator()<S, S, Sum<A>>();
      case Scan::cumprod: return body.template operator()<S, S, Prod<A>>();
      case Scan::logcumsumexp:
        if constexpr (!std::is_integral_v<S>) body.template operator()<S, S, LogAdd<A>>();
        return;
      case Scan::cummax:
      case Scan::cummin: return body.template operator()<S, S, LastMax<Comparable<S>>>();
    }
  });
}

// The position of the k-th element that the scan takes: from the other end in a reverse scan.
inline int64_t from_front(const ScanArgs& args, int64_t k) { return args.reverse ? args.length - 1 - k : k; }

// That position as an index into the whole line. -1, for no element, stays -1.
inline int64_t index_of(const ScanArgs& args, int64_t k) { return k < 0 ? -1 : args.front + from_front(args, k); }

// The k-th element that the scan takes, of one of the contiguous rows.
template <class Op, class S>
typename Op::Value value_of(const ScanArgs& args, int64_t row, int64_t k) {
  using Value = typename Op::Value;
  const int64_t at = from_front(args, k);
  if (args.mask.data && args.mask.hides(row, at, 0)) return Op::identity();
  const auto x = widen(static_cast<const S*>(args.input)[row * args.length + at]);
  if constexpr (std::is_arithmetic_v<Value>) {
    return Value(x);
  } else {
    const auto value = decltype(Value::value)(x);
    return {args.function == Scan::cummin ? flip(value) : value, k};
  }
}

// The place of a row's j-th result in the output.
inline int64_t place_of(const ScanArgs& args, int64_t row, int64_t j) {
  return row * args.results + (args.reverse ? args.results - 1 - j : j);
}

// Fold(0), the result for no elements: +0 for a sum, 1 for a product, -inf for logcumsumexp, and for an extreme the
// value that every element of the type replaces.
template <class S>
S empty_value(Scan function) {
  using A = std::conditional_t<std::is_integral_v<S>, S, Accumulator<S>>;
  const A values[] = {A(0), A(1), kLeast<A>, kLeast<A>, kMost<A>};
  return narrow<S>(values[int(function)]);
}

template <class R>
void put_empty_value(const ScanArgs& args, int64_t at) {
  static_cast<R*>(args.output)[at] = empty_value<R>(args.function);
  if (args.indices) args.indices[at] = -1;
}

// Stores the result at place `at` of the whole output.
template <class R, class A>
void put(const ScanArgs& args, int64_t at, A value) {
  static_cast<R*>(args.output)[at] = narrow<R>(value);
}

// What stands before the first element of line `line`, of [outer, inner], as a value of the operator's: at index -1.
template <class Op, class R>
typename Op::Value value_before(const ScanArgs& args, int64_t line) {
  using Value = typename Op::Value;
  if (args.before == nullptr) return Op::identity();
  if constexpr (std::is_arithmetic_v<Value>) {
    return static_cast<const Value*>(args.before)[line];
  } else {
    const auto value = decltype(Value::value)(widen(static_cast<const R*>(args.before)[line]));
    return {args.function == Scan::cummin ? flip(value) : value, -1};
  }
}

// Stores that value as a result.
template <class R>
void put_before(const ScanArgs& args, int64_t at, int64_t line) {
  if (args.before == nullptr) return put_empty_value<R>(args, at);
  if (args.indices) {
    static_cast<R*>(args.output)[at] = static_cast<const R*>(args.before)[line];
    args.indices[at] = args.before_indices[line];
  } else {
    put<R>(args, at, static_cast<const Accumulator<R>*>(args.before)[line]);
  }
}

template <class R, class C>
void put(const ScanArgs& args, int64_t at, Indexed<C> value) {
  if (value.index < 0) return put_empty_value<R>(args, at);  // the identity does not fit a small type
  static_cast<R*>(args.output)[at] = narrow<R>(args.function == Scan::cummin ? flip(value.value) : value.value);
  args.indices[at] = index_of(args, value.index);
}

}  // namespace torch_reductions::cpu::scan
