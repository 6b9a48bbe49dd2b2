// Shared by the CPU's rungs: the operator of each function, and how its values become elements of the output.
#pragma once
#include <type_traits>

#include "../../common/args.h"
#include "../../common/operators.h"
#include "../convert.h"

namespace torch_reductions::cpu::reduce {

// body(std::type_identity<Op>()) with the operator of the function. argmin is argmax of flipped values.
template <class S, class Body>
void with_operator(Function function, Body&& body) {
  switch (function) {
    case Function::sum:
    case Function::mean: return body(std::type_identity<Sum<Accumulator<S>>>());
    case Function::prod: return body(std::type_identity<Prod<Accumulator<S>>>());
    case Function::amax: return body(std::type_identity<Max<Comparable<S>>>());
    case Function::amin: return body(std::type_identity<Min<Comparable<S>>>());
    case Function::argmax:
    case Function::argmin: return body(std::type_identity<ArgMax<Comparable<S>>>());
  }
}

// Writes the outputs [first, first + count): a mean is divided, half types are rounded once.
template <class A>
void write(const ReduceArgs& args, int64_t first, int64_t count, const A* folds) {
  const auto value = [&](int64_t i) {
    const A fold = folds[i];
    if constexpr (std::is_floating_point_v<A>) return args.function == Function::mean ? fold / A(args.length) : fold;
    else return fold;
  };
  with_storage(args.output_dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    S* output = static_cast<S*>(args.output) + first;
    for (int64_t i = 0; i < count; i++) {
      const A x = value(i);
      if constexpr (std::is_integral_v<S>) output[i] = args.output_dtype == Dtype::boolean ? S(x != A(0)) : S(x);
      else output[i] = narrow<S>(x);
    }
  });
}

template <class A>
void write(const ReduceArgs& args, int64_t first, int64_t count, const Indexed<A>* folds) {
  int64_t* output = static_cast<int64_t*>(args.output) + first;
  for (int64_t i = 0; i < count; i++) output[i] = folds[i].index;
}

}  // namespace torch_reductions::cpu::reduce
