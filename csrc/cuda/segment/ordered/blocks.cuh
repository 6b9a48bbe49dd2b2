// Contiguous lines of long segments: one block per segment, so that the loads of all of them are in flight together.
//
// A segment of several tiles has a block of its own for its first one; the others belong to the windows that they stand
// in (job.cuh), whose blocks come first in the grid, and publish them for it.
//
// Local:   segment_blocks (8 bytes): of extremes of halves, an address, for a third block.
#pragma once
#include "../../reduce/ordered/long_rows.cuh"
#include "later_tiles.cuh"
#include "packed_rows.cuh"

namespace torch_reductions::cuda::segment {

// The blocks of all windows but the first of each line; then those of the segments.
template <class S>
__global__ void __launch_bounds__(32 << kLogRowWarps, kRowBlocks<S, false>) segment_blocks(Job<S> job) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  __shared__ BlockFold<Value> shared;
  const int64_t windows = job.lines * (job.windows - 1), tile = int64_t(1) << job.log_tile, count = job.segments.count;
  const bool of_window = blockIdx.x < windows;
  const int64_t i = of_window ? blockIdx.x : blockIdx.x - windows;
  const int64_t line = of_window ? i / (job.windows - 1) : i / count;
  int64_t window = 0, s, n = 0;
  Piece piece{};
  if (of_window) {
    window = i - line * (job.windows - 1) + 1;
    s = first_from_by_warp(job.segments, window << job.log_tile) - 1;
    if (s >= 0) piece = later_piece(job.log_tile, s, job.segments.begin(s), job.segments.end(s), window);
  } else {
    s = i - line * count;
    const int64_t begin = job.segments.begin(s);
    n = job.segments.end(s) - begin;
    piece = {begin, int(n < tile ? n : tile)};
  }
  uint64_t number = 0;
  if (windows > 0) number = launch_number(job.tile_state);
  if (piece.n > 0) {
    int log_span = kLogUnit<S>;  // as many warps as have a unit
    while (piece.n > int64_t(blockDim.x >> 5) << log_span) log_span++;
    fold_tile(job.source, job.layout.line(line) + piece.begin * S::kBytes, piece.n, log_span, 0, shared);
  }
  const int lane = threadIdx.x;
  if (lane >= 32) return;
  const unsigned tag = launch_tag(number);
  if (of_window) {
    publish_digits(job, line, window, piece.n, shared.digit, tag);
  } else {
    Value v = fold_set_digits<Op>(Op::identity(), shared.digit, piece.n);
    if (n > tile) v = fold_later_tiles(job, line, (piece.begin + s) >> job.log_tile, n, v, tag, shared.digit);
    if (lane == 0) job.store(line, s, n, v);
  }
  if (windows > 0 && lane == 0) release(job.tile_state, gridDim.x, tag);
}

}  // namespace torch_reductions::cuda::segment
