// Any other layout: a thread takes V neighbouring results and a run of 2^k elements of each, at any strides; the runs of
// a block are merged in shared memory, those of several blocks by the last of them to arrive.
#pragma once
#include "../../primitives/grid.cuh"
#include "elements.cuh"

namespace torch_reductions::cuda {

// A run is at most 2^kLogMaxRun elements: each level of its binary counter waits in registers.
template <class S, int V>
inline constexpr int kLogMaxRun = V * sizeof(typename S::Value) <= 4    ? 12
                                  : V * sizeof(typename S::Value) <= 8  ? 11
                                  : V * sizeof(typename S::Value) <= 16 ? 9
                                                                        : 8;
// What a thread loads at once.
template <class S, int V>
inline constexpr int kLogBatch = V * sizeof(typename S::Value) > 8 ? 3 : 4;

// Results are numbered [outer, inner] and taken V at a time ("a group"); steps are in bytes.
struct Columns {
  const char* data;
  int64_t groups, inner, outer_bytes, inner_bytes, length_bytes, length;

  __device__ __forceinline__ const char* group(int64_t g) const {
    if (inner == groups) return data + g * inner_bytes;
    const int64_t o = g / inner;
    return data + o * outer_bytes + (g - o * inner) * inner_bytes;
  }
};

// How the work is cut: a block takes `width` groups and 2^log_height runs of 2^log_run elements of each; `chunks` blocks
// one after the other cover the length.
template <class Value>
struct Cut {
  int width, log_height, log_run, log_last_run;  // log_last_run: of the runs over the chunks' totals
  unsigned chunks;
  Value *totals, *digits;  // [tile][chunk][width * V], [tile][log_run + log_height][width * V]
  unsigned* tickets;       // one a tile
};

// v[0 .. V) folded over 2^Log elements.
template <class S, int V, int Log>
__device__ __forceinline__ void column_block(const S& source, typename S::Value (&v)[V], const char* p, int64_t step,
                                             int64_t index, uint64_t policy) {
  constexpr int R = 1 << Log;
  uint32_t words[R][(V * S::kBytes + 3) / 4];
#pragma unroll
  for (int i = 0; i < R; i++) load_words<V * S::kBytes>(words[i], p + i * step, policy);
#pragma unroll
  for (int e = 0; e < V; e++) {
    typename S::Value x[R];
#pragma unroll
    for (int i = 0; i < R; i++) x[i] = source.value(words[i], e, index + i);
    v[e] = tree<typename S::Op, R>(x);
  }
}

// The binary counter: value number n arrives, merges with the waiting ones while the bit is set, then waits. Recursion,
// because a loop with a break would put wait[] into local memory.
template <class Op, int V, int Levels, int Level = 0>
__device__ __forceinline__ void push(typename Op::Value (&wait)[Levels][V], typename Op::Value (&v)[V], int n) {
  if constexpr (Level < Levels) {
    if (n >> Level & 1) {
#pragma unroll
      for (int e = 0; e < V; e++) v[e] = Op::combine(wait[Level][e], v[e]);
      push<Op, V, Levels, Level + 1>(wait, v, n);
    } else {
#pragma unroll
      for (int e = 0; e < V; e++) wait[Level][e] = v[e];
    }
  }
}

template <class Value, int V>
__device__ __forceinline__ void put(Value* to, const Value (&v)[V]) {
#pragma unroll
  for (int e = 0; e < V; e++) to[e] = v[e];
}

// The digits below 2^(Log + 1) of a run that is not complete.
template <class S, int V, int Log>
__device__ __forceinline__ void column_tail(const S& source, typename S::Value* digit, int pitch, const char* p, int n,
                                            int64_t step, int64_t index, uint64_t policy) {
  if (n >> Log & 1) {
    typename S::Value v[V];
    column_block<S, V, Log>(source, v, p, step, index, policy);
    put<typename S::Value, V>(digit + Log * pitch, v);
    p += step << Log;
    index += 1 << Log;
  }
  if constexpr (Log > 0) column_tail<S, V, Log - 1>(source, digit, pitch, p, n, step, index, policy);
}

// One block folds n elements of `width` groups; p is this thread's group at the block's first element. Afterwards
// (synchronised) digit[k * pitch + column] is digit k of that column wherever bit k of n is set. table: a value for each
// thread and column.
template <int V, class S>
__device__ __forceinline__ void column_fold(const S& source, const char* p, int64_t step, int64_t n, int64_t index,
                                            int width, int log_height, int log_run, typename S::Value* table,
                                            typename S::Value* digit, uint64_t policy) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogR = kLogBatch<S, V>, Levels = kLogMaxRun<S, V> - LogR + 1;
  const int y = threadIdx.x / width, column = (threadIdx.x - y * width) * V, pitch = width * V;
  const int whole = int(n >> log_run);  // complete runs
  if (y < 1 << log_height) {
    const int64_t first = int64_t(y) << log_run;
    const int64_t left = n - first;
    const int count = left <= 0 ? 0 : left < 1 << log_run ? int(left) : 1 << log_run;
    p += first * step;
    index += first;
    Value wait[Levels][V];
    for (int r = 0; r < count >> LogR; r++) {
      Value v[V];
      column_block<S, V, LogR>(source, v, p, step, index, policy);
      push<Op, V, Levels>(wait, v, r);
      p += step << LogR;
      index += 1 << LogR;
    }
    const bool complete = count == 1 << log_run;
    each<Levels>([&](auto l) {
      if (count >> (LogR + l.value) & 1)
        put<Value, V>(complete ? table + y * pitch + column : digit + (LogR + l.value) * pitch + column, wait[l.value]);
    });
    // What is left of a run that is not complete; or a complete one shorter than a batch, whose digit is its total.
    if (!complete || log_run < LogR)
      column_tail<S, V, LogR - 1>(source, complete ? table + (y - log_run) * pitch + column : digit + column, pitch, p,
                                  count & ((1 << LogR) - 1), step, index, policy);
  }
  __syncthreads();
  for (int k = 0; k <= log_height; k++) {  // the tree over the complete runs
    const int size = 1 << k;
    if ((whole >> k & 1) && y == whole >> (k + 1) << (k + 1)) {
#pragma unroll
      for (int e = 0; e < V; e++) digit[(log_run + k) * pitch + column + e] = table[y * pitch + column + e];
    }
    if (k < log_height && (y & (2 * size - 1)) == 0 && y + 2 * size <= whole) {
#pragma unroll
      for (int e = 0; e < V; e++) {
        Value& left = table[y * pitch + column + e];
        left = Op::combine(left, table[(y + size) * pitch + column + e]);
      }
    }
    __syncthreads();
  }
}

// The totals that other blocks left are columns too. Not inlined: every input type of an operator shares it.
template <class Op>
__device__ __noinline__ void fold_column_totals(const typename Op::Value* totals, int64_t pitch, int64_t n, int width,
                                                int log_height, int log_run, typename Op::Value* table,
                                                typename Op::Value* digit, uint64_t policy) {
  column_fold<1>(Totals<Op>(), reinterpret_cast<const char*>(totals), pitch * int64_t(sizeof(typename Op::Value)), n, 0,
                 width, log_height, log_run, table, digit, policy);
}

template <class S, int V>
__global__ void __launch_bounds__(512) columns(S source, Columns columns, Output out, Cut<typename S::Value> cut,
                                               bool stream) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  extern __shared__ uint4 memory[];
  const unsigned tile = blockIdx.x / cut.chunks, chunk = blockIdx.x - tile * cut.chunks;
  const int pitch = cut.width * V, log_chunk = cut.log_run + cut.log_height;
  Value* const table = reinterpret_cast<Value*>(memory);
  Value* const digit = table + (pitch << cut.log_height);
  const int y = threadIdx.x / cut.width, x = threadIdx.x - y * cut.width;
  const int64_t group = int64_t(tile) * cut.width + x;
  const bool inside = group < columns.groups;
  const char* p = columns.group(inside ? group : columns.groups - 1);  // beyond the last group: the last one again
  const uint64_t policy = cache_policy(stream);
  const int64_t start = int64_t(chunk) << log_chunk, full = int64_t(1) << log_chunk;
  int64_t n = columns.length - start < full ? columns.length - start : full;

  column_fold<V>(source, p + start * columns.length_bytes, columns.length_bytes, n, start, cut.width, cut.log_height,
                 cut.log_run, table, digit, policy);
  if (cut.chunks == 1) {
    if (y == 0 && inside)
#pragma unroll
      for (int e = 0; e < V; e++) {
        Value v = Op::identity();
        for (int k = log_chunk; k >= 0; k--)
          if (n >> k & 1) v = Op::combine(v, digit[k * pitch + x * V + e]);
        out.store<Op>(group * V + e, v);
      }
    return;
  }

  Value* totals = cut.totals + int64_t(tile) * cut.chunks * pitch;
  Value* digits = cut.digits + int64_t(tile) * log_chunk * pitch;
  if (n == full) {
    for (int i = threadIdx.x; i < pitch; i += blockDim.x) totals[int64_t(chunk) * pitch + i] = digit[log_chunk * pitch + i];
  } else {
    for (int i = threadIdx.x; i < log_chunk * pitch; i += blockDim.x)
      if (n >> i / pitch & 1) digits[i] = digit[i];
  }
  if (!arrive_last(cut.tickets + tile, cut.chunks)) return;
  n = columns.length >> log_chunk;
#pragma unroll 1
  for (int e = 0; e < V; e++) {  // a thread takes every column of its group in turn
    fold_column_totals<Op>(totals + x * V + e, pitch, n, cut.width, cut.log_height, cut.log_last_run, table, digit, policy);
    if (y == 0 && inside) {
      Value v = Op::identity();
      for (int k = cut.log_last_run + cut.log_height; k >= 0; k--)
        if (n >> k & 1) v = Op::combine(v, digit[k * cut.width + x]);
      for (int k = log_chunk - 1; k >= 0; k--)
        if (columns.length >> k & 1)
          v = Op::combine(v, load_one(Totals<Op>(), reinterpret_cast<const char*>(digits + k * pitch + x * V + e), 0, policy));
      out.store<Op>(group * V + e, v);
    }
    __syncthreads();
  }
}

}  // namespace torch_reductions::cuda
