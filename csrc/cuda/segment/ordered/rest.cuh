// The second launch of lines: segments of several tiles, from what the tiles have passed on. A thread folds a few
// tiles, a block many.
#pragma once
#include "../../primitives/dependent.cuh"
#include "../../reduce/ordered/split.cuh"
#include "lines.cuh"

namespace torch_reductions::cuda::segment {

inline constexpr int kRestThreads = 256;
inline constexpr int kThreadTiles = 64;  // that a thread folds
inline constexpr int kLogRound = 11;     // tiles that a block folds at once

// A segment's whole tiles, and the digits of its ragged one.
template <class S>
struct Tiles {
  using Op = typename S::Op;
  using Value = typename S::Value;
  const Job<S>& job;
  int64_t line, s, n, window;  // its first tile's

  // Of `number`, a segment; or a window, whose last segment alone may have several tiles.
  __device__ __forceinline__ Tiles(const Job<S>& job, int64_t line, int64_t number, bool by_window)
      : job(job),
        line(line),
        s(by_window ? first_from(job, (number + 1) << job.log_tile) - 1 : number),
        n(s < 0 ? 0 : job.segments.end(s) - job.segments.begin(s)),
        window(s < 0 ? 0 : job.work_index(s) >> job.log_tile) {
    if (by_window && window != number) n = 0;  // it stands before this one
  }

  __device__ __forceinline__ int64_t whole() const { return n >> job.log_tile; }
  __device__ __forceinline__ bool several() const { return n > int64_t(1) << job.log_tile; }
  __device__ __forceinline__ Value tile(int64_t t) const {
    return t == 0 ? *first_tile(job, line, window) : later_tile(job, line, window + t)[job.log_tile];
  }
  // As rows of one line, for fold_in_thread().
  using Row = Value;
  __device__ __forceinline__ Row load(int t) const { return tile(t); }
  __device__ __forceinline__ Value value(Row row, int) const { return row; }
  __device__ __forceinline__ void store(Value fold) const {
    const uint64_t rest = uint64_t(n) & ((uint64_t(1) << job.log_tile) - 1);
    if (rest != 0) fold = fold_set_digits<Op>(fold, later_tile(job, line, window + whole()), rest);
    job.store(line, s, n, fold);
  }
};

// The fold of all whole tiles; valid in thread 0.
template <class S>
__device__ __forceinline__ typename S::Value fold_tiles_in_block(const Tiles<S>& tiles) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int Round = 1 << kLogRound;
  __shared__ Value leaf[Round], digit[kMaxDigits];
  const int64_t whole = tiles.whole();
  for (int64_t round = 0; round << kLogRound < whole; round++) {
    const int64_t first = round << kLogRound;
    const int here = whole - first < Round ? int(whole - first) : Round;
    for (int t = threadIdx.x; t < here; t += kRestThreads) leaf[t] = tiles.tile(first + t);
    __syncthreads();
    for (int half = 1; 2 * half <= here; half *= 2) {  // a tree for each digit of `here`, in place
      for (int b = 2 * half * threadIdx.x; b + 2 * half <= here; b += 2 * half * kRestThreads)
        leaf[b] = Op::combine(leaf[b], leaf[b + half]);
      __syncthreads();
    }
    if (here == Round) {
      if (threadIdx.x == 0) count_block<Op>(digit, 0, round, leaf[0]);
      __syncthreads();
    }
  }
  Value v = Op::identity();
  if (threadIdx.x == 0) {
    v = fold_set_digits<Op>(v, digit, uint64_t(whole) >> kLogRound);
    int at = 0;
    for (int rest = int(whole & (Round - 1)); rest != 0; rest ^= 1 << highest_bit(rest)) {
      v = Op::combine(v, leaf[at]);
      at += 1 << highest_bit(rest);
    }
  }
  __syncthreads();  // for the next call
  return v;
}

// `each_block` pairs of a line and a segment per block, or of a line and a window where these are far fewer; neighbouring
// threads with neighbouring lines.
template <class S>
__global__ void __launch_bounds__(kRestThreads, 4)
    segment_rest(Job<S> job, int64_t pairs, int each_block, bool by_window) {
  __shared__ bool is_long[kRestThreads];
  await_launch_before();
  const int64_t first = int64_t(blockIdx.x) * each_block;
  const int here = pairs - first < each_block ? int(pairs - first) : each_block;
  const auto tiles_of = [&](int64_t pair) {
    const int64_t number = pair / job.lines;
    return Tiles<S>(job, pair - number * job.lines, number, by_window);
  };
  bool too_long = false;
  if (int(threadIdx.x) < here) {
    const Tiles<S> tiles = tiles_of(first + threadIdx.x);
    too_long = tiles.whole() > kThreadTiles;
    if (tiles.several() && !too_long) {
      typename S::Value v[1];
      fold_in_thread<typename S::Op, 1, false>(v, int(tiles.whole()), tiles, [](int, const auto&) {});
      tiles.store(v[0]);
    }
  }
  if (!__syncthreads_or(too_long)) return;
  is_long[threadIdx.x] = too_long;
  __syncthreads();
  for (int i = 0; i < here; i++) {
    if (!is_long[i]) continue;
    const Tiles<S> tiles = tiles_of(first + i);
    const typename S::Value v = fold_tiles_in_block(tiles);
    if (threadIdx.x == 0) tiles.store(v);
  }
}

}  // namespace torch_reductions::cuda::segment
