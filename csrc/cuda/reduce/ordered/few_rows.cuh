// Few rows folded down, such as (2, 2^25) along dim 0: a thread folds V columns alone, in registers.
#pragma once
#include "columns.cuh"

namespace torch_reductions::cuda::reduce {

inline constexpr int kFewRowsThreads = 256;
// Fewer rows than 2^this. 16 at once take many registers, so that More has a kernel of its own.
inline constexpr int kLogFewRows = 4, kLogMoreRows = 5;

// As many columns as a load of 16 bytes holds, and as registers do.
template <class S>
inline constexpr int kFewRowsVector =
    32 / int(sizeof(typename S::Value)) < S::E ? 32 / int(sizeof(typename S::Value)) : S::E;

// Packed: a thread's columns are neighbours, aligned to one load; else they lie kFewRowsThreads apart.
template <class S, bool Packed>
struct FewRows {
  static constexpr int V = Packed || kFewRowsVector<S> < 4 ? kFewRowsVector<S> : 4;
  static constexpr int kElement = (S::kBytes + 3) / 4;  // words
  using Value = typename S::Value;
  S source;
  int64_t step;
  const char* p[Packed ? 1 : V];
  uint64_t policy;

  // The tree over 2^Log rows from row i on.
  template <int Log>
  __device__ __forceinline__ void block(Value (&v)[V], int i) const {
    constexpr int R = 1 << Log;
    if constexpr (Packed) {
      uint32_t words[R][(V * S::kBytes + 3) / 4];
#pragma unroll
      for (int r = 0; r < R; r++) {
        if constexpr (V * S::kBytes == 16) load16(words[r], p[0] + (i + r) * step, policy);
        else load_words<V * S::kBytes>(words[r], p[0] + (i + r) * step);
      }
      column_trees<R, V>(source, v, words, i);
    } else {
      uint32_t words[V][R][kElement];
#pragma unroll
      for (int r = 0; r < R; r++)
#pragma unroll
        for (int e = 0; e < V; e++) load_words<S::kBytes>(words[e][r], p[e] + (i + r) * step);
#pragma unroll
      for (int e = 0; e < V; e++) {
        Value one[1];
        column_trees<R, 1>(source, one, words[e], i);
        v[e] = one[0];
      }
    }
  }
};

// A function of its own: the divisions of a thread's columns would be most of the kernel.
template <class Value>
__device__ __noinline__ Value divided(Value value, Value by) {
  return value / by;
}

// `groups` of columns: a group is as many as a load holds.
template <class S, bool Packed, bool More>
__global__ void __launch_bounds__(kFewRowsThreads)
    few_rows(S source, Lines columns, int64_t groups, Output out, int length, bool packed_results) {
  using Rows = FewRows<S, Packed>;
  using Op = typename S::Op;
  constexpr int V = Rows::V;
  Rows rows{source, columns.length_bytes, {}, evict_first()};
  const int64_t first = int64_t(blockIdx.x) * kFewRowsThreads * (Packed ? 1 : V) + threadIdx.x;
#pragma unroll
  for (int e = 0; e < (Packed ? 1 : V); e++) {
    const int64_t group = first + e * kFewRowsThreads;
    rows.p[e] = columns.line(group < groups ? group : groups - 1);
  }
  typename S::Value folded[V];
#pragma unroll
  for (int e = 0; e < V; e++) folded[e] = Op::identity();
  for_each_digit<More ? kLogMoreRows : kLogFewRows>(length, [&](auto k, int i) {
    typename S::Value v[V];
    rows.template block<k.value>(v, i);
#pragma unroll
    for (int e = 0; e < V; e++) folded[e] = Op::combine(folded[e], v[e]);
  });
  if constexpr (std::is_floating_point_v<typename S::Value>) {
    if (out.divisor != 0)
#pragma unroll
      for (int e = 0; e < V; e++) folded[e] = divided(folded[e], typename S::Value(out.divisor));
    out.divisor = 0;
  }
  if constexpr (Packed) {
    if (first >= groups) return;
    if (packed_results) out.store_vector<Op, V>(first * V, folded);
    else
#pragma unroll
      for (int e = 0; e < V; e++) out.store<Op>(first * V + e, folded[e]);
  } else {
#pragma unroll
    for (int e = 0; e < V; e++)
      if (first + e * kFewRowsThreads < groups) out.store<Op>(first + e * kFewRowsThreads, folded[e]);
  }
}

}  // namespace torch_reductions::cuda::reduce
