// The vector code of `ordered`, in GCC's vectors of any width: each ordered_*.cpp compiles it for one processor.
//
// Everything has internal linkage and uses no function of std::, so that the linker cannot mix up code for different
// processors.
#pragma once
#include <type_traits>

#include "any_order.h"
#include "ordered.h"
#include "ordered_extremes.h"
#include "ordered_tree.h"

namespace torch_reductions::cpu::reduce {
namespace {

template <class Op, class A, class S>
void fold_strip(const ReduceStrip& strip, void* folds) {
  if (strip.columns) fold_strip_of_columns<Op, A, S>(strip, static_cast<A*>(folds));
  else fold_strip_of_rows<Op, A, S>(strip, static_cast<A*>(folds));
}

template <class Op, class A, class S>
void arg_strip(const ReduceStrip& strip, void* folds) {
  if (strip.columns) arg_strip_of_columns<Op, A, S>(strip, static_cast<Indexed<A>*>(folds));
  else arg_strip_of_rows<Op, A, S>(strip, static_cast<Indexed<A>*>(folds));
}

// Where every order has the same bits. P: the type of partial results (any_order.h).
template <template <class> class Op, class A, class P, class S>
void any_order_strip(const ReduceStrip& strip, void* folds) {
  if (strip.columns) any_order_columns<Op, A, P, S>(strip, static_cast<A*>(folds));
  else if (one_row_at_a_time<A>(strip)) any_order_rows<Op, A, P, S>(strip, static_cast<A*>(folds));
  else fold_strip_of_rows<Op<A>, A, S>(strip, static_cast<A*>(folds));
}

// int64 is summed as uint64, in place: the same bits.
template <class S, class Summed = std::conditional_t<std::is_same_v<S, int64_t>, uint64_t, S>>
constexpr void set_reduce_kernels(ReduceKernels& kernels, Dtype dtype) {
  using A = std::conditional_t<std::is_integral_v<S>, uint64_t, Accumulator<S>>;  // unsigned, because it wraps
  using C = std::conditional_t<std::is_integral_v<S>, std::conditional_t<sizeof(S) <= 4, int32_t, int64_t>, A>;
  const auto set = [&](Function function, FoldStrip fold) { kernels.fold[int(function)][int(dtype)] = fold; };
  if constexpr (std::is_integral_v<S>) {
    using P = std::conditional_t<sizeof(S) <= 2, int32_t, uint64_t>;
    set(Function::sum, any_order_strip<SumOf, A, P, Summed>);
    set(Function::mean, any_order_strip<SumOf, A, P, Summed>);
    set(Function::prod, any_order_strip<ProdOf, A, uint64_t, Summed>);
    set(Function::amax, any_order_strip<MaxOf, C, S, S>);
    set(Function::amin, any_order_strip<MinOf, C, S, S>);
  } else {
    set(Function::sum, fold_strip<SumOf<A>, A, Summed>);
    set(Function::mean, fold_strip<SumOf<A>, A, Summed>);
    set(Function::prod, fold_strip<ProdOf<A>, A, Summed>);
    set(Function::amax, extreme_strip<MaxOf<C>, C, S>);
    set(Function::amin, extreme_strip<MinOf<C>, C, S>);
  }
  set(Function::argmax, arg_strip<MaxOf<C>, C, S>);
  set(Function::argmin, arg_strip<MinOf<C>, C, S>);
}

constexpr ReduceKernels make_reduce_kernels() {
  ReduceKernels kernels{};
  for (int dtype = 0; dtype < kDtypes; dtype++) {
    with_storage(Dtype(dtype),
                 [&](auto tag) { set_reduce_kernels<typename decltype(tag)::type>(kernels, Dtype(dtype)); });
  }
  set_reduce_kernels<uint8_t, Bool>(kernels, Dtype::boolean);  // extremes are those of the bytes
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu::reduce
