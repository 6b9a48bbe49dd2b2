// Scans in registers: up a balanced tree, and down again.
#pragma once
#include "../../primitives/elements.cuh"

namespace torch_reductions::cuda {

// Bit `bit` of `swapped`: of two neighbours among 2^(bit + 1) values the first one stands behind the second.
//
// node[N .. 2N) are values, and node[i] becomes node[2 i] ∘ node[2 i + 1]: node[1] is the whole.
template <class Op, int N>
__device__ __forceinline__ void tree_up(typename Op::Value (&node)[2 * N], int swapped = 0) {
  each<N - 1>([&](auto c) {
    constexpr int i = N - 1 - c.value, bit = log2_of(N) - 1 - log2_of(i);
    node[i] = join<Op>(swapped >> bit & 1, node[2 * i], node[2 * i + 1]);
  });
}

// lo[i] and hi[i]: the folds of all that stands before the first value below node i, and of all up to its last one.
// Given are lo[1] and hi[1]; lo[N + j] and hi[N + j] are the exclusive and the inclusive scan of value j.
template <class Op, int N>
__device__ __forceinline__ void tree_down(const typename Op::Value (&node)[2 * N], typename Op::Value (&lo)[2 * N],
                                          typename Op::Value (&hi)[2 * N], int swapped = 0) {
  each<N - 1>([&](auto c) {
    constexpr int i = c.value + 1, bit = log2_of(N) - 1 - log2_of(i);
    const bool swap = swapped >> bit & 1;
    const typename Op::Value middle = Op::combine(lo[i], swap ? node[2 * i + 1] : node[2 * i]);
    lo[2 * i] = swap ? middle : lo[i];
    hi[2 * i] = swap ? hi[i] : middle;
    lo[2 * i + 1] = swap ? lo[i] : middle;
    hi[2 * i + 1] = swap ? middle : hi[i];
  });
}

}  // namespace torch_reductions::cuda
