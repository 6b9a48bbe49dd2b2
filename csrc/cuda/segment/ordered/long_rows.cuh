// Contiguous lines of long segments: a block or a warp per segment, so that the loads of all of them are in flight
// together.
//
// A segment of several tiles has a worker of its own for its first one; the others belong to the windows that they
// stand in (job.cuh), whose workers come first in the grid, and publish them for it.
#pragma once
#include "../../reduce/ordered/long_rows.cuh"
#include "later_tiles.cuh"
#include "packed_rows.cuh"

namespace torch_reductions::cuda::segment {

// The workers of all windows but the first of each line; then those of the segments. By blocks, or else by warps, of
// which a block has as many as it may.
template <class S, bool ByBlocks>
__global__ void __launch_bounds__(32 << kLogRowWarps, kRowBlocks<S, false>) segment_long_rows(Job<S> job) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  __shared__ BlockFold<Value> shared[ByBlocks ? 1 : 1 << kLogRowWarps];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  Value* const digit = shared[ByBlocks ? 0 : warp].digit;
  const int64_t windows = job.lines * (job.windows - 1), count = job.segments.count;
  const int64_t i = ByBlocks ? int64_t(blockIdx.x) : int64_t(blockIdx.x) << kLogRowWarps | warp;
  const bool of_window = i < windows;
  uint64_t number = 0;
  if (windows > 0) number = launch_number(job.tile_state);
  if (i < windows + job.lines * count) {
    const int64_t own = of_window ? i : i - windows, line = own / (of_window ? job.windows - 1 : count);
    int64_t window = 0, s, n = 0;
    Piece piece{};
    if (of_window) {
      window = own - line * (job.windows - 1) + 1;
      s = first_from_by_warp(job.segments, window << job.log_tile) - 1;
      piece = later_piece(job.log_tile, job.segments, s, window);
    } else {
      s = own - line * count;
      const int64_t begin = job.segments.begin(s);
      n = job.segments.end(s) - begin;
      piece = first_piece(job.log_tile, begin, n);
      window = (begin + s) >> job.log_tile;
    }
    const char* const p = job.layout.line(line) + piece.begin * S::kBytes;
    Value v = Op::identity();
    if (piece.n > 0) {
      if constexpr (ByBlocks) {
        int log_span = kLogUnit<S>;  // as many warps as have a unit
        while (piece.n > int64_t(blockDim.x >> 5) << log_span) log_span++;
        fold_tile(job.source, p, piece.n, log_span, 0, shared[0]);
      } else {
        v = fold_in_warp(job.source, p, piece.n, of_window ? digit : nullptr);
        __syncwarp();
      }
    }
    if (!ByBlocks || warp == 0) {
      const Published<Value> tiles = published(job, line, window, launch_tag(number));
      if (of_window) {
        publish_digits(tiles, piece.n, digit);
      } else {
        if (ByBlocks) v = fold_set_digits<Op>(v, digit, piece.n);
        if (n > piece.n) v = fold_tiles_in_warp<Op>(tiles, n, v, digit);
        if (lane == 0) job.store(line, s, n, v);
      }
    }
  }
  if (windows == 0) return;
  if (!ByBlocks) __syncthreads();
  if (threadIdx.x == 0) release(job.tile_state, gridDim.x, launch_tag(number));
}

}  // namespace torch_reductions::cuda::segment
