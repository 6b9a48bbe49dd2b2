// Lines of any strides: a thread folds what a window owns of a line, or of a few lines whose elements are neighbours in
// memory; neighbouring threads take neighbouring lines. Where a segment has several tiles, a second launch folds them
// (rest.cuh).
#pragma once
#include "../../primitives/async.cuh"
#include "../../primitives/dependent.cuh"
#include "job.cuh"

namespace torch_reductions::cuda::segment {

inline constexpr int kLineThreads = 256;
inline constexpr int kLeastLogLineTile = 3, kSmallLogLineTile = 6, kLogLineTile = 10;

// The lines whose elements a thread reads as one vector, where it may.
template <class S>
inline constexpr int kLineVector = sizeof(typename S::Value) == 4 && S::kBytes >= 2 ? 4 : 1;

// The elements of V neighbouring lines, row by row.
template <class S, int V>
struct ElementRows {
  using Value = typename S::Value;
  struct Row {
    uint32_t words[(V * S::kBytes + 3) / 4];
  };
  const Job<S>& job;
  const char* first;
  __device__ __forceinline__ Row load(int i) const {
    Row row;
    load_words<V * S::kBytes>(row.words, first + i * job.layout.length_bytes);
    return row;
  }
  __device__ __forceinline__ Value value(const Row& row, int e) const { return job.source.value(row.words, e, 0); }
};

// all[e] becomes the fold of n <= 2^kLogLineTile values of line e, eight rows of them at a time. take(k, digit): the
// lines' digits, from the highest down. AtOnce: the last n mod 8 rows are loaded at the same time, whatever digits they
// belong to.
template <class Op, int V, bool AtOnce, class Rows, class Take>
__device__ __forceinline__ void fold_in_thread(typename Op::Value (&all)[V], int n, const Rows& rows, Take take) {
  using Value = typename Op::Value;
  constexpr int Levels = kLogLineTile - 2;
  using Row = typename Rows::Row;
  Value wait[Levels][V], v[V];
  const auto fold = [&]<int N>(const Row(&row)[N]) {
#pragma unroll
    for (int e = 0; e < V; e++) {
      Value x[N];
#pragma unroll
      for (int i = 0; i < N; i++) x[i] = rows.value(row[i], e);
      v[e] = tree<Op, N>(x);
    }
  };
  const auto append = [&](int k, const Value(&digit)[V]) {
#pragma unroll
    for (int e = 0; e < V; e++) all[e] = Op::combine(all[e], digit[e]);
    take(k, digit);
  };
#pragma unroll
  for (int e = 0; e < V; e++) all[e] = Op::identity();
  const int blocks = n >> 3, rest = n & 7;
#pragma unroll 1
  for (int b = 0; b < blocks; b++) {
    Row row[8];
#pragma unroll
    for (int i = 0; i < 8; i++) row[i] = rows.load(b * 8 + i);
    fold(row);
    push<Op, V>(wait, v, b);
  }
  Row last[7];  // where AtOnce; apart from the loop's rows, whose registers would have to stay
  if constexpr (AtOnce) {
#pragma unroll
    for (int i = 0; i < 7; i++)
      if (i < rest) last[i] = rows.load(blocks * 8 + i);
  }
  if (blocks > 0) for_each_digit<Levels>(blocks, [&](auto k, int) { append(3 + k.value, wait[k.value]); });
  if constexpr (AtOnce) {
    const bool four = rest & 4, two = rest & 2;
    if (four) fold({last[0], last[1], last[2], last[3]}), append(2, v);
    if (two) fold({four ? last[4] : last[0], four ? last[5] : last[1]}), append(1, v);
    if (rest & 1) fold({four ? (two ? last[6] : last[4]) : two ? last[2] : last[0]}), append(0, v);
  } else {
    for_each_digit<3>(rest, [&](auto k, int at) {
      Row row[1 << k.value];
#pragma unroll
      for (int i = 0; i < 1 << k.value; i++) row[i] = rows.load(blocks * 8 + at + i);
      fold(row);
      append(k.value, v);
    });
  }
}

// The first segment whose work index is not below `index`.
template <class S>
__device__ __forceinline__ int64_t first_from(const Job<S>& job, int64_t index) {
  int64_t low = 0, high = job.segments.count;
  while (low < high) {
    const int64_t middle = (low + high) >> 1;
    if (job.work_index(middle) < index) low = middle + 1;
    else high = middle;
  }
  return low;
}

// What a window's tiles pass on to the second launch.
template <class S>
__device__ __forceinline__ typename S::Value* first_tile(const Job<S>& job, int64_t line, int64_t window) {
  return job.slots + (line * job.windows + window) * (job.log_tile + 2);
}
template <class S>
__device__ __forceinline__ typename S::Value* later_tile(const Job<S>& job, int64_t line, int64_t window) {
  return first_tile(job, line, window) + 1;
}

// Blocks of a multiprocessor: V lines take registers.
template <int V>
inline constexpr int kLineBlocks = V > 1 ? 2 : 4;

template <class S, int V>
__global__ void __launch_bounds__(kLineThreads, kLineBlocks<V>) segment_lines(Job<S> job) {
  using Value = typename S::Value;
  start_next_launch();
  const bool one_window = job.windows == 1;
  const int64_t groups = job.lines / V, all = groups * job.windows;  // of V lines
  const int64_t i = int64_t(blockIdx.x) * kLineThreads + threadIdx.x;
  const int64_t own = i < all ? i : all - 1, window = one_window ? 0 : own / groups, line = (own - window * groups) * V,
                start = window << job.log_tile, tile = int64_t(1) << job.log_tile;
  const int64_t outer = job.outer_of(line);
  const char* const data = job.data(outer, line);
  int64_t s = one_window ? 0 : first_from(job, start);
  // Few threads, one element after the other: the L2 fetches them beforehand, a row of a warp's lines per lane.
  if (job.log_tile <= kSmallLogLineTile && __all_sync(kFullWarp, window == shuffle(window, 0)) &&
      s < job.segments.count) {
    const char* const first = reinterpret_cast<const char*>(shuffle(reinterpret_cast<int64_t>(data), 0));
    const int64_t from = job.segments.begin(s > 0 ? s - 1 : 0), to = min(from + tile, job.segments.length);
    for (int64_t at = from + threadIdx.x % 32; at < to; at += 32)
#pragma unroll
      for (int bytes = 0; bytes < 32 * V * S::kBytes; bytes += 128)
        prefetch_to_l2(first + at * job.layout.length_bytes + bytes);
  }
  if (i >= all) return;
  Piece piece = later_piece(job.log_tile, job.segments, s - 1, window);
  Value* digits = piece.n > 0 ? later_tile(job, line, window) : nullptr;
  // One loop for all pieces, so that the fold is there once: first a later tile, then the segments of the window.
  for (bool later = piece.n > 0;; later = false) {
    int64_t n = piece.n;
    if (!later) {
      if (s >= job.segments.count) return;
      const int64_t begin = job.segments.begin(s);
      if (begin + s >= start + tile) return;
      n = job.segments.end(s) - begin;
      piece = first_piece(job.log_tile, begin, n);
      digits = nullptr;
    }
    const ElementRows<S, V> rows{job, data + piece.begin * job.layout.length_bytes};
    const int64_t of_line = job.windows * (job.log_tile + 2);  // slots
    Value v[V];
    fold_in_thread<typename S::Op, V, false>(v, piece.n, rows, [&](int k, const Value(&digit)[V]) {
      if (digits == nullptr) return;
#pragma unroll
      for (int e = 0; e < V; e++) digits[e * of_line + k] = digit[e];
    });
    if (later) continue;
    if (n <= tile) job.store(outer, line, s, n, v);
    else
#pragma unroll
      for (int e = 0; e < V; e++) first_tile(job, line, window)[e * of_line] = v[e];
    s++;
  }
}

}  // namespace torch_reductions::cuda::segment
