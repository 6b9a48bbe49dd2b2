// Lines of any strides: a thread folds what a window owns of a line; neighbouring threads take neighbouring lines. Where
// a segment has several tiles, a second launch folds them (rest.cuh).
#pragma once
#include "../../primitives/async.cuh"
#include "../../primitives/dependent.cuh"
#include "job.cuh"

namespace torch_reductions::cuda::segment {

inline constexpr int kLineThreads = 256;
inline constexpr int kLeastLogLineTile = 3, kSmallLogLineTile = 6, kLogLineTile = 10;

// The fold of n <= 2^kLogLineTile values load(0) ... load(n - 1), eight of them at a time. take(k, digit): its digits,
// from the highest down. AtOnce: the last n mod 8 values are loaded at the same time, whatever digits they belong to.
template <class Op, bool AtOnce, class Load, class Take>
__device__ __forceinline__ typename Op::Value fold_in_thread(int n, Load load, Take take) {
  using Value = typename Op::Value;
  constexpr int Levels = kLogLineTile - 2;
  Value wait[Levels][1], v[1], x[8], all = Op::identity();
  const auto append = [&](int k, Value digit) {
    all = Op::combine(all, digit);
    take(k, digit);
  };
  const int blocks = n >> 3, rest = n & 7;
#pragma unroll 1
  for (int b = 0; b < blocks; b++) {
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = load(b * 8 + i);
    v[0] = tree<Op, 8>(x);
    push<Op, 1>(wait, v, b);
  }
  if constexpr (AtOnce) {
#pragma unroll
    for (int i = 0; i < 7; i++) {
      x[i] = Op::identity();
      if (i < rest) x[i] = load(blocks * 8 + i);
    }
  }
  if (blocks > 0) for_each_digit<Levels>(blocks, [&](auto k, int) { append(3 + k.value, wait[k.value][0]); });
  if constexpr (AtOnce) {
    if (rest & 4) append(2, tree<Op, 4>(x));
    if (rest & 2) append(1, rest & 4 ? Op::combine(x[4], x[5]) : Op::combine(x[0], x[1]));
    if (rest & 1) append(0, rest & 4 ? (rest & 2 ? x[6] : x[4]) : rest & 2 ? x[2] : x[0]);
  } else {
    for_each_digit<3>(rest, [&](auto k, int at) {
      constexpr int Size = 1 << k.value;
#pragma unroll
      for (int i = 0; i < Size; i++) x[i] = load(blocks * 8 + at + i);
      append(k.value, tree<Op, Size>(x));
    });
  }
  return all;
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

template <class S>
__global__ void __launch_bounds__(kLineThreads, 4) segment_lines(Job<S> job) {
  using Value = typename S::Value;
  start_next_launch();
  const bool one_window = job.windows == 1;
  const int64_t i = int64_t(blockIdx.x) * kLineThreads + threadIdx.x, all = job.lines * job.windows;
  const int64_t own = i < all ? i : all - 1, window = one_window ? 0 : own / job.lines, line = own - window * job.lines,
                start = window << job.log_tile, tile = int64_t(1) << job.log_tile;
  const int64_t outer = job.outer_of(line);
  const char* const data = job.data(outer, line);
  int64_t s = one_window ? 0 : first_from(job, start), begin = 0;
  // Few threads, one element after the other: the L2 fetches them beforehand, a row of a warp's lines per lane.
  if (job.log_tile <= kSmallLogLineTile && __all_sync(kFullWarp, window == shuffle(window, 0)) &&
      s < job.segments.count) {
    const char* const first = reinterpret_cast<const char*>(shuffle(reinterpret_cast<int64_t>(data), 0));
    const int64_t from = job.segments.begin(s > 0 ? s - 1 : 0), to = min(from + tile, job.segments.length);
    for (int64_t at = from + threadIdx.x % 32; at < to; at += 32) prefetch_to_l2(first + at * job.layout.length_bytes);
  }
  if (i >= all) return;
  Piece piece{};
  if (s > 0) piece = later_piece(job.log_tile, s - 1, job.segments.begin(s - 1), job.segments.end(s - 1), window);
  Value* digits = piece.n > 0 ? later_tile(job, line, window) : nullptr;
  // One loop for all pieces, so that the fold is there once: first a later tile, then the segments of the window.
  for (bool later = piece.n > 0;; later = false) {
    int64_t n = piece.n;
    if (!later) {
      if (s >= job.segments.count) return;
      begin = job.segments.begin(s);
      if (begin + s >= start + tile) return;
      n = job.segments.end(s) - begin;
      piece = first_piece(job, begin, n);
      digits = nullptr;
    }
    const char* const p = data + piece.begin * job.layout.length_bytes;
    const Value v = fold_in_thread<typename S::Op, false>(
        piece.n, [&](int k) { return load_one(job.source, p + k * job.layout.length_bytes, 0); },
        [&](int k, Value digit) {
          if (digits != nullptr) digits[k] = digit;
        });
    if (later) continue;
    if (n <= tile) job.store(outer, line, s, n, v);
    else *first_tile(job, line, window) = v;
    s++;
  }
}

}  // namespace torch_reductions::cuda::segment
