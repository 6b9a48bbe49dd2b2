// Contiguous lines: a warp folds what a window owns of a line. Short segments are staged in shared memory by 16-byte
// loads, as many as there is room for, and folded from there, one thread per segment; longer ones are folded by the
// whole warp.
//
// Local:   segment_rows (36 bytes): places and counts, which wait there while a long segment is folded, for another
//          block.
#pragma once
#include "../../primitives/joined_segments.cuh"
#include "../../reduce/ordered/rows.cuh"
#include "../../reduce/ordered/short_rows.cuh"
#include "later_tiles.cuh"

namespace torch_reductions::cuda::segment {

inline constexpr int kPackedThreads = 128;
inline constexpr int kPackedBytes = 8192;  // that a warp stages at once
inline constexpr int kPackedLane = 4;      // segments per thread
inline constexpr int kPackedRow = 512;     // the longest segment of a thread

// The first segment whose work index is not below `index`: each lane tests one of 32.
template <class Offsets>
__device__ __forceinline__ int64_t first_from_by_warp(const Offsets& segments, int64_t index) {
  const int lane = threadIdx.x & 31;
  int64_t low = 0, high = segments.count;
  while (low < high) {
    const int64_t step = (high - low + 31) >> 5, at = low + lane * step;
    const unsigned behind = __ballot_sync(kFullWarp, at >= high || segments.begin(at) + at >= index);
    const int before = behind == 0 ? 32 : __ffs(int(behind)) - 1;  // lanes whose segment stands before `index`
    if (before < 32) high = min(high, low + before * step);
    if (before > 0) low = low + (before - 1) * step + 1;
  }
  return low;
}

// The bytes [0, end) from `aligned` on, padded as Staged reads them.
template <int Bytes>
__device__ __forceinline__ void stage(char* shared, const char* aligned, int end) {
  constexpr int Loads = 8;
  const int lane = threadIdx.x & 31;
  const uint64_t policy = evict_first();
#pragma unroll 1
  for (int from = lane * 16; from - lane * 16 < end; from += Loads * 512) {
    uint32_t words[Loads][4];
#pragma unroll
    for (int j = 0; j < Loads; j++) load16(words[j], aligned + from + j * 512, policy, from + j * 512 < end);
#pragma unroll
    for (int j = 0; j < Loads; j++) {
      const int at = from + j * 512;
      if (at < end) store_padded<Bytes>(shared + padded<Bytes>(at), words[j]);
    }
  }
}

// By a warp: what window number `i` of all lines owns. Offsets: of a line, or of lines joined. shared: room for what is
// staged, digit: for kMaxDigits values.
template <class S, class Offsets>
__device__ __forceinline__ void fold_window(const Job<S>& job, const Offsets& segments, int64_t i, bool several,
                                            unsigned tag, char* shared, typename S::Value* digit) {
  using Value = typename S::Value;
  const int lane = threadIdx.x & 31;
  const int64_t line = i / job.windows, window = i - line * job.windows, tile = int64_t(1) << job.log_tile,
                start = window << job.log_tile;
  const char* const row = job.layout.line(line);
  int64_t s = first_from_by_warp(segments, start);
  Piece piece = later_piece(job.log_tile, segments, s - 1, window);
  // One loop for all pieces, so that the fold is there once: first a later tile, then the segments of the window.
  for (bool later = several;; later = false) {
    int64_t n = piece.n;
    if (!later) {
      if (s >= segments.count) return;
      const int64_t base = segments.begin(s);
      if (base + s >= start + tile) return;
      // The next `count` segments can be staged together.
      int count = 0, from[kPackedLane], length[kPackedLane];
#pragma unroll
      for (int g = 0; g < kPackedLane; g++) {
        const int64_t at = s + g * 32 + lane;
        bool fits = false;
        if (at < segments.count) {
          const int64_t begin = segments.begin(at), end = segments.begin(at + 1);
          from[g] = int(begin - base), length[g] = int(end - begin);
          fits = begin + at < start + tile && begin >= base && end >= begin && end - begin <= kPackedRow &&
                 end - base <= kPackedBytes / S::kBytes;
        }
        const unsigned others = ~__ballot_sync(kFullWarp, fits);
        if (count == g * 32) count += others == 0 ? 32 : __ffs(int(others)) - 1;
      }
      if (count > 0) {
        const char* const p = row + base * S::kBytes;
        const int shift = int(reinterpret_cast<uintptr_t>(p) & 15);
        __syncwarp();  // the segments before these have been read
        const int bytes = int(segments.begin(s + count) - base) * S::kBytes;
        stage<S::kBytes>(shared, p - shift, bytes > 0 ? shift + bytes : 0);
        __syncwarp();
#pragma unroll
        for (int g = 0; g < kPackedLane; g++) {
          if (g * 32 + lane >= count) continue;
          const Staged<S> staged{shared, shift + from[g] * S::kBytes, job.source};
          job.store(line, s + g * 32 + lane, length[g], staged.template fold_row<kPackedRow>(length[g]));
        }
        s += count;
        continue;
      }
      n = segments.end(s) - base;
      piece = first_piece(job.log_tile, base, n);
    }
    Value v{};
    if (piece.n > 0) v = fold_in_warp(job.source, row + piece.begin * S::kBytes, piece.n, later ? digit : nullptr);
    __syncwarp();
    const Published<Value> tiles = published(job, line, window, tag);
    if (later) {
      publish_digits(tiles, piece.n, digit);
    } else {
      // Offsets that are wrong may lead to a segment before this window, whose tiles nobody has begun.
      if (n > tile && piece.begin + s >= start) v = fold_tiles_in_warp<typename S::Op>(tiles, n, v, digit);
      if (lane == 0) job.store(line, s, n, v);
      s++;
    }
    __syncwarp();
  }
}

// Windows in descending order: those of a segment's later tiles begin before that of its first one, which waits for
// them.
template <class S, class Offsets>
__global__ void __launch_bounds__(kPackedThreads, sizeof(typename S::Value) == 8 ? 4 : 5)
    segment_rows(Job<S> job, Offsets segments) {
  using Value = typename S::Value;
  constexpr int kStaged = padded<S::kBytes>(kPackedBytes + 16) + 16;
  __shared__ uint4 staged[kPackedThreads / 32][(kStaged + 15) / 16];
  __shared__ Value digits[kPackedThreads / 32][kMaxDigits];
  const int warp = threadIdx.x >> 5;
  const int64_t i = int64_t(blockIdx.x) * (kPackedThreads / 32) + warp, windows = job.lines * job.windows;
  const bool several = job.tile_state.words != nullptr;
  unsigned tag = 0;
  if (several) tag = launch_tag(launch_number(job.tile_state));
  if (i < windows)
    fold_window(job, segments, windows - 1 - i, several, tag, reinterpret_cast<char*>(staged[warp]), digits[warp]);
  if (!several) return;
  __syncthreads();
  if (threadIdx.x == 0) release(job.tile_state, gridDim.x, tag);
}

}  // namespace torch_reductions::cuda::segment
