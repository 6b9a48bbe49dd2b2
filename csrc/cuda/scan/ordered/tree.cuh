// Scans in registers: up a balanced tree, and down again.
#pragma once
#include "../../primitives/elements.cuh"

namespace torch_reductions::cuda::scan {

// node[N .. 2N) are values, and node[i] becomes node[2 i] ∘ node[2 i + 1]: node[1] is the whole.
template <class Op, int N>
__device__ __forceinline__ void tree_up(typename Op::Value (&node)[2 * N]) {
#pragma unroll
  for (int i = N - 1; i > 0; i--) node[i] = Op::combine(node[2 * i], node[2 * i + 1]);
}

// The balanced tree over 2^log_count <= 8 values.
template <class Op, class Get>
__device__ __forceinline__ typename Op::Value block_of(Get get, int log_count) {
  typename Op::Value v = get(0);
  if (log_count > 0) v = Op::combine(v, get(1));
  if (log_count > 1) v = Op::combine(v, Op::combine(get(2), get(3)));
  if (log_count > 2) v = Op::combine(v, Op::combine(Op::combine(get(4), get(5)), Op::combine(get(6), get(7))));
  return v;
}

// lo[i] and hi[i]: the folds of all that stands before the first value below node i, and of all up to its last one.
// Given are lo[1] and hi[1]; lo[N + j] and hi[N + j] are the exclusive and the inclusive scan of value j.
template <class Op, int N>
__device__ __forceinline__ void tree_down(const typename Op::Value (&node)[2 * N], typename Op::Value (&lo)[2 * N],
                                          typename Op::Value (&hi)[2 * N]) {
#pragma unroll
  for (int i = 1; i < N; i++) {
    lo[2 * i] = lo[i], hi[2 * i] = lo[2 * i + 1] = Op::combine(lo[i], node[2 * i]), hi[2 * i + 1] = hi[i];
  }
}

// Each x[i] becomes the block that ends at i, as in a Fenwick tree.
template <class Op, int N>
__device__ __forceinline__ void blocks_of_run(typename Op::Value (&x)[N]) {
#pragma unroll
  for (int half = 1; half < N; half *= 2)
#pragma unroll
    for (int i = 2 * half - 1; i < N; i += 2 * half) x[i] = Op::combine(x[i - half], x[i]);
}

// A scan over the lanes whose numbers differ in bits `first` to end - 1, at most N: v becomes the block of them all.
// left[k]: the block left of this lane's at bit first + k, where its number has that bit; otherwise the identity.
template <class Op, int N>
__device__ __forceinline__ void left_blocks(typename Op::Value& v, typename Op::Value (&left)[N], int first, int end,
                                            int lane) {
#pragma unroll
  for (int k = 0; k < N; k++) {
    left[k] = Op::identity();
    if (first + k < end) {  // uniform
      const int bit = first + k;
      const typename Op::Value other = shuffle_xor(v, 1 << bit);
      const bool right = lane >> bit & 1;
      if (right) left[k] = other;
      v = join<Op>(right, v, other);
    }
  }
}

// The fold so far, which may be empty.
template <class Op>
struct SoFar {
  typename Op::Value value{};
  bool there = false;
  __device__ __forceinline__ void append(typename Op::Value next) {
    value = there ? Op::combine(value, next) : next;
    there = true;
  }
};

// What stands before a run, or several, and the fold up to their end.
template <class Op, class Before = typename Op::Value>
struct Around {
  Before before;
  typename Op::Value last;
};

// Down a run: x[i], the block that ends there, becomes the fold of all up to element i, given those before the first
// one and up to the last one.
template <class Op, int N>
__device__ __forceinline__ void folds_of_run(typename Op::Value (&x)[N], const SoFar<Op>& before,
                                             typename Op::Value last) {
#pragma unroll
  for (int i = 0; i + 1 < N; i++) {
    const int start = i & (i + 1);  // of the block that ends at i
    if (start > 0) x[i] = Op::combine(x[start > 0 ? start - 1 : 0], x[i]);
    else if (before.there) x[i] = Op::combine(before.value, x[i]);
  }
  x[N - 1] = last;
}

// The values of a run that registers hold from up() to down(), where to combine is dear.
template <class Value>
inline constexpr int kDearRun = sizeof(Value) == 4 ? 32 : 16;

// The same two of the first `run` values, a power of two, where to combine is dear: those behind them are not combined.
// Least: run is no less. Half: of so many all is done already. The blocks stay in registers from the one to the other;
// returns that of them all.
template <class Op, int Least, int N, int Half = 1>
__device__ __forceinline__ typename Op::Value blocks_of_first(typename Op::Value (&x)[N], int run) {
  if constexpr (Half == N) return x[N - 1];
  else {
    if (Half >= Least && Half == run) return x[Half - 1];  // uniform
#pragma unroll
    for (int size = 1; size <= Half; size *= 2)
#pragma unroll
      for (int i = (size < Half ? Half : 0) + 2 * size - 1; i < 2 * Half; i += 2 * size)
        x[i] = Op::combine(x[i - size], x[i]);
    return blocks_of_first<Op, Least, N, 2 * Half>(x, run);
  }
}
template <class Op, int Least, int N, int Half = 1>
__device__ __forceinline__ void folds_of_first(typename Op::Value (&x)[N], const SoFar<Op>& before,
                                               typename Op::Value last, int run) {
  if (Half == N || (Half >= Least && Half == run)) x[Half - 1] = last;
  else if (before.there) x[Half - 1] = Op::combine(before.value, x[Half - 1]);
  if constexpr (Half < N) {
    if (Half >= Least && Half == run) return;
#pragma unroll
    for (int i = Half; i + 1 < 2 * Half; i++) x[i] = Op::combine(x[(i & (i + 1)) - 1], x[i]);
    folds_of_first<Op, Least, N, 2 * Half>(x, before, last, run);
  }
}

// x: elements j * N and on of folds; returns the one before them, which `before` is of the first.
template <class Value, int N, int Run>
__device__ __forceinline__ Value part_of(const Value (&folds)[Run], int j, Value before, Value (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) x[i] = folds[j * N + i];
  return j > 0 ? folds[j > 0 ? j * N - 1 : 0] : before;
}

// The block of the first n of N elements, where that is a power of two less than N; otherwise the other one.
template <class Value, int N>
__device__ __forceinline__ Value first_block(const Value (&x)[N], int n, Value other) {
#pragma unroll
  for (int i = 1; i < N; i *= 2)
    if (n == i) other = x[i - 1];
  return other;
}

// The total of a line of n = 2^k elements, fewer than a run of Nodes / 2 parts has. node: the tree over the parts, as
// tree_up() makes it; load(x) loads the first part.
template <class Op, int Part, int Nodes, class Load>
__device__ __forceinline__ typename Op::Value total_in_run(const typename Op::Value (&node)[Nodes], int n, Load load) {
  constexpr int kParts = Nodes / 2;
  static_assert(Part == 8);
  typename Op::Value total = node[kParts];
#pragma unroll
  for (int d = 1; 1 << d < kParts; d++)
    if (n == Part * kParts >> d) total = node[1 << d];
  if (n < Part) {
    typename Op::Value x[Part];
    load(x);
    blocks_of_run<Op, Part>(x);
    total = n == 1 ? x[0] : n == 2 ? x[1] : x[3];
  }
  return total;
}

// Up the lanes of a line of 2^log_lines side by side: the total of all its runs in the warp. left[k]: the block of 2^k
// runs left of this one's, where its place among them has bit k.
template <class Op>
__device__ __forceinline__ typename Op::Value runs_of_warp(typename Op::Value total, typename Op::Value (&left)[5],
                                                           int log_lines) {
#pragma unroll
  for (int k = 0; k < 5; k++)
    if (log_lines + k < 5) {  // uniform
      const int bit = log_lines + k;
      left[k] = shuffle_xor(total, 1 << bit);
      total = join<Op>(threadIdx.x >> bit & 1, total, left[k]);
    }
  return total;
}

}  // namespace torch_reductions::cuda::scan
