// What 32 lanes do together: trees and digits by xor steps.
//
// DIGITS. Fold(n) is one value for each set bit of n (digit k is a block of 2^k elements) and a left fold of them from
// the highest down. A piece of work passes on digits, never a partial fold. In an xor step the lane at position n, the
// first one past the end, receives at step k just the block that is digit k, where bit k of n is set: one primitive
// serves lanes, warps, tiles and chunks.
#pragma once
#include "thread.cuh"

namespace torch_reductions::cuda {

inline constexpr unsigned kFullWarp = 0xffffffffu;

// f of each part of a value that a register, or a pair of them, holds.
template <class V, class F>
__device__ __forceinline__ V each_part(V v, F f) {
  return f(v);
}
template <class A, class I, class F>
__device__ __forceinline__ Indexed<A, I> each_part(Indexed<A, I> v, F f) {
  return {f(v.value), f(v.index)};
}
template <class A, class F>
__device__ __forceinline__ Step<A> each_part(Step<A> v, F f) {
  return {f(v.gate), f(v.token)};
}
template <class A, class F>
__device__ __forceinline__ Pair<A> each_part(Pair<A> v, F f) {
  return {f(v.first), f(v.second)};
}

template <class V>
__device__ __forceinline__ V shuffle(V v, int lane) {
  return each_part(v, [&](auto x) { return __shfl_sync(kFullWarp, x, lane); });
}
template <class V>
__device__ __forceinline__ V shuffle_xor(V v, int mask) {
  return each_part(v, [&](auto x) { return __shfl_xor_sync(kFullWarp, x, mask); });
}

// A lane's own block and its sibling's, in the order of the elements.
template <class Op>
__device__ __forceinline__ typename Op::Value join(bool own_is_right, typename Op::Value own,
                                                   typename Op::Value other) {
  if constexpr (Op::commutes) return Op::combine(own, other);
  else return Op::combine(own_is_right ? other : own, own_is_right ? own : other);
}

template <class Op>
__device__ __forceinline__ typename Op::Value xor_step(typename Op::Value v, int bit, int lane) {
  return join<Op>(lane >> bit & 1, v, shuffle_xor(v, 1 << bit));
}

// Reduce-scatter: N values per lane become N / 2; then lane bit `bit` is the lowest bit of the values' index.
template <class Op, int N, int G>
__device__ __forceinline__ void exchange_halves(typename Op::Value (&q)[G], int bit, int lane) {
  const bool upper = lane >> bit & 1;
#pragma unroll
  for (int i = 0; i < N / 2; i++) {
    const typename Op::Value even = q[2 * i], odd = q[2 * i + 1];
    q[i] = join<Op>(upper, upper ? odd : even, shuffle_xor(upper ? even : odd, 1 << bit));
  }
}

// G = 4 or 8 groups of 32 lane values: lane l then holds the total of group l % G. 9 shuffles instead of 40.
template <class Op, int G>
__device__ __forceinline__ typename Op::Value group_totals(const typename Op::Value (&groups)[G], int lane) {
  typename Op::Value q[G];
#pragma unroll
  for (int i = 0; i < G; i++) q[i] = groups[i];
  if constexpr (G == 8) exchange_halves<Op, 8>(q, 0, lane);
  exchange_halves<Op, 4>(q, log2_of(G) - 2, lane);
  exchange_halves<Op, 2>(q, log2_of(G) - 1, lane);
  typename Op::Value v = q[0];
#pragma unroll
  for (int k = log2_of(G); k < 5; k++) v = xor_step<Op>(v, k, lane);
  return v;
}

// The total of G groups of 32 lane values, in every lane.
template <class Op, int G>
__device__ __forceinline__ typename Op::Value unit_total(const typename Op::Value (&groups)[G], int lane) {
  typename Op::Value v = group_totals<Op>(groups, lane);
#pragma unroll
  for (int k = 0; k < log2_of(G); k++) v = xor_step<Op>(v, k, lane);
  return v;
}

// The digits of m values held one per lane, bits 0 ... Steps - 1: valid in the lanes that equal m modulo 2^Steps.
// Returns the block of all 2^Steps lanes.
template <class Op, int Steps>
__device__ __forceinline__ typename Op::Value lane_digits(typename Op::Value v, int m,
                                                          typename Op::Value (&digit)[Steps], int lane) {
#pragma unroll
  for (int k = 0; k < Steps; k++) {
    const typename Op::Value other = shuffle_xor(v, 1 << k);
    digit[k] = m >> k & 1 ? other : Op::identity();
    v = join<Op>(lane >> k & 1, v, other);
  }
  return v;
}

// base ∘ digit[Steps - 1] ∘ ... ∘ digit[0]
template <class Op, int Steps>
__device__ __forceinline__ typename Op::Value fold_digits(typename Op::Value base,
                                                          const typename Op::Value (&digit)[Steps]) {
#pragma unroll
  for (int k = Steps - 1; k >= 0; k--) base = Op::combine(base, digit[k]);
  return base;
}

}  // namespace torch_reductions::cuda
