// Any other layout: a thread takes V neighbouring results and a run of 2^k elements of each, at any strides; the runs
// of a block are merged in shared memory, those of several blocks by the last of them.
#pragma once
#include "../../primitives/grid.cuh"
#include "elements.cuh"

namespace torch_reductions::cuda {

// A run is at most 2^kLogMaxRun elements: each level of its binary counter waits in registers.
template <class S, int V>
inline constexpr int kLogMaxRun = S::E == 1                             ? 10
                                  : V * sizeof(typename S::Value) <= 4  ? 12
                                  : V * sizeof(typename S::Value) <= 8  ? 11
                                  : V * sizeof(typename S::Value) <= 16 ? 9
                                                                        : 8;
// What a thread loads at once.
template <class S, int V>
inline constexpr int kLogBatch = S::E == 1 || sizeof(typename S::Value) == 16 ? 2
                                 : V * sizeof(typename S::Value) > 8          ? 3
                                                                              : 4;

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

// How the work is cut: a block takes `width` groups and 2^log_height runs of 2^log_run elements of each; `chunks`
// blocks one after the other cover the length.
struct Cut {
  int width, log_height, log_run, log_last_run;  // log_last_run: of the runs over the chunks' totals
  unsigned tiles, chunks;
  Board board;  // where there are several chunks: [tile][chunk][width * V]
};

// v[0 .. V) folded over 2^Log elements.
template <int V, int Log, class T, class Op>
__device__ __forceinline__ void column_block(const Input<T, Op>& source, typename Op::Value (&v)[V], const char* p,
                                             int64_t step, int64_t index) {
  constexpr int R = 1 << Log;
  uint32_t words[R][(V * sizeof(T) + 3) / 4];
#pragma unroll
  for (int i = 0; i < R; i++) load_words<V * sizeof(T)>(words[i], p + i * step);
#pragma unroll
  for (int e = 0; e < V; e++) {
    typename Op::Value x[R];
#pragma unroll
    for (int i = 0; i < R; i++) x[i] = source.value(words[i], e, index + i);
    v[e] = tree<Op, R>(x);
  }
}
// The same of published totals; p is then an offset in bytes from the board's words.
template <int V, int Log, class Op>
__device__ __forceinline__ void column_block(const Published<Op>& source, typename Op::Value (&v)[V], const char* p,
                                             int64_t step, int64_t) {
  typename Op::Value x[1 << Log];
  await(
      x, [&](int i) { return reinterpret_cast<const uint64_t*>(p + i * step); }, [](int) { return true; }, source.tag);
  v[0] = tree<Op, 1 << Log>(x);
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
                                            int64_t step, int64_t index) {
  if (n >> Log & 1) {
    typename S::Value v[V];
    column_block<V, Log>(source, v, p, step, index);
    put<typename S::Value, V>(digit + Log * pitch, v);
    p += step << Log;
    index += 1 << Log;
  }
  if constexpr (Log > 0) column_tail<S, V, Log - 1>(source, digit, pitch, p, n, step, index);
}

// One block folds n elements of `width` groups; p is this thread's group at the block's first element. Afterwards
// (synchronised) digit[k * pitch + column] is digit k of that column wherever bit k of n is set. table: a value for
// each thread and column.
template <int V, class S>
__device__ __forceinline__ void column_fold(const S& source, const char* p, int64_t step, int64_t n, int64_t index,
                                            int width, int log_height, int log_run, typename S::Value* table,
                                            typename S::Value* digit) {
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
      column_block<V, LogR>(source, v, p, step, index);
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
                                  count & ((1 << LogR) - 1), step, index);
  }
  __syncthreads();
  if (log_height <= 5) {  // uniform: a lane a run, the digits by xor steps
    const int run = threadIdx.x & ((1 << log_height) - 1), group = threadIdx.x >> log_height;
    const bool inside = group < width;
#pragma unroll
    for (int e = 0; e < V; e++) {
      Value* const to = digit + log_run * pitch + group * V + e;
      Value v = inside && run < whole ? table[run * pitch + group * V + e] : Op::identity();
      for (int k = 0; k < log_height; k++) {
        const Value other = shuffle_xor(v, 1 << k);
        if (inside && (whole >> k & 1) && run == (whole & ((1 << log_height) - 1))) to[k * pitch] = other;
        v = join<Op>(run >> k & 1, v, other);
      }
      if (inside && whole >> log_height && run == 0) to[log_height * pitch] = v;
    }
    __syncthreads();
    return;
  }
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

// The totals that other blocks publish are columns too. Not inlined: every input type of an operator shares it.
template <class Op>
__device__ __noinline__ void fold_published_columns(const uint64_t* words, int64_t step, unsigned tag, int64_t n,
                                                    int width, int log_height, int log_run, typename Op::Value* table,
                                                    typename Op::Value* digit) {
  column_fold<1>(Published<Op>{nullptr, tag}, reinterpret_cast<const char*>(words), step, n, 0, width, log_height,
                 log_run, table, digit);
}

template <class S, int V>
inline constexpr int kColumnThreads = V * sizeof(typename S::Value) <= 8 ? 1024 : 512;

// A block takes a chunk of a tile. Where there are several chunks it publishes its totals, and the block of the last
// one waits for all of them, folds them, and its own digits if its chunk is ragged.
template <class S, int V>
__global__ void __launch_bounds__(kColumnThreads<S, V>) columns(S source, Columns columns, Output out, Cut cut) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int Words = kTaggedWords<Value>;
  extern __shared__ uint4 memory[];
  const unsigned tile = blockIdx.x / cut.chunks, chunk = blockIdx.x - tile * cut.chunks;
  const unsigned tag = cut.chunks > 1 ? launch_tag(cut.board) : 0;
  const int pitch = cut.width * V, log_chunk = cut.log_run + cut.log_height;
  Value* const table = reinterpret_cast<Value*>(memory);
  Value* const digit = table + (pitch << cut.log_height);
  const int y = threadIdx.x / cut.width, x = threadIdx.x - y * cut.width;
  const int64_t group = int64_t(tile) * cut.width + x;
  const bool inside = group < columns.groups;
  const char* p = columns.group(inside ? group : columns.groups - 1);  // beyond the last group: the last one again
  const int64_t start = int64_t(chunk) << log_chunk, full = int64_t(1) << log_chunk;
  const int64_t left = columns.length - start, n = left < full ? left : full;
  const int64_t whole = columns.length >> log_chunk;
  uint64_t* const board = cut.board.words + int64_t(tile) * whole * pitch * Words;
  if (cut.chunks > 1 && threadIdx.x * 4 < pitch * Words)
    prefetch(board + int64_t(chunk) * pitch * Words + threadIdx.x * 4);
  column_fold<V>(source, p + start * columns.length_bytes, columns.length_bytes, n, start, cut.width, cut.log_height,
                 cut.log_run, table, digit);
  const auto fold_own = [&](Value v, int column) {
    for (int k = log_chunk; k >= 0; k--)
      if (n >> k & 1) v = Op::combine(v, digit[k * pitch + column]);
    return v;
  };
  if (cut.chunks == 1) {
    if (y == 0 && inside)
#pragma unroll
      for (int e = 0; e < V; e++) out.store<Op>(group * V + e, fold_own(Op::identity(), x * V + e));
    return;
  }

  if (n == full)
    for (int i = threadIdx.x; i < pitch; i += blockDim.x)
      publish(board + (int64_t(chunk) * pitch + i) * Words, digit[log_chunk * pitch + i], tag);
  if (chunk + 1 < cut.chunks) return;

  Value* const last = digit + (log_chunk + 1) * pitch;  // the digits of the folded totals
#pragma unroll 1
  for (int e = 0; e < V; e++) {  // a thread takes every column of its group in turn
    fold_published_columns<Op>(board + (x * V + e) * Words, int64_t(pitch) * Words * 8, tag, whole, cut.width,
                               cut.log_height, cut.log_last_run, table, last);
    if (e == V - 1 && threadIdx.x == blockDim.x - 1) leave(cut.board, cut.tiles, tag);
    if (y == 0 && inside) {
      Value v = Op::identity();
      for (int k = cut.log_last_run + cut.log_height; k >= 0; k--)
        if (whole >> k & 1) v = Op::combine(v, last[k * cut.width + x]);
      out.store<Op>(group * V + e, n < full ? fold_own(v, x * V + e) : v);
    }
    __syncthreads();
  }
}

}  // namespace torch_reductions::cuda
