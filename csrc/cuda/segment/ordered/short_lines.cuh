// Lines of any strides whose segments are short: a thread per segment of a line, or of a few lines whose elements are
// neighbours in memory; neighbouring threads with neighbouring lines, so that the loads of all segments are in flight
// together.
//
// A segment of several tiles has a thread of its own for its first one; the others have a thread for each window of
// each line (job.cuh), whose blocks come first in the grid.
//
// Local:   segment_short_lines (8 bytes): a place in the result, which waits there until the segment is folded.
#pragma once
#include "../../primitives/fast_div.cuh"
#include "later_tiles.cuh"
#include "lines.cuh"

namespace torch_reductions::cuda::segment {

inline constexpr int kLeastLogShortTile = 7;
// A thread folds so many tiles. More are folded by its warp, for one thread after the other.
inline constexpr int64_t kFewTiles = 64;

// The blocks of all windows but the first, of groups of V lines; then those of `pieces`, the groups' segments.
template <class S, int V>
__global__ void __launch_bounds__(kLineThreads, kLineBlocks<V>)
    segment_short_lines(Job<S> job, FastDiv groups, int64_t pieces, unsigned window_blocks) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  __shared__ Value digits[kLineThreads / 32][kMaxDigits];
  const bool of_window = blockIdx.x < window_blocks;
  const int64_t i = int64_t(blockIdx.x - (of_window ? 0 : window_blocks)) * kLineThreads + threadIdx.x,
                all = of_window ? job.lines / V * (job.windows - 1) : pieces;
  uint64_t number = 0;
  if (window_blocks > 0) number = launch_number(job.tile_state);
  int64_t outer = 0, line = 0, window = 0, s = 0, n = 0;
  Value v[V];
  bool waits = false;  // for more tiles than a thread folds
  if (i < all) {
    const int64_t of_line = groups.quotient(i, job.lines / V);
    line = (i - of_line * (job.lines / V)) * V, outer = job.outer_of(line);
    Piece piece{};
    if (of_window) {
      window = of_line + 1;
      s = first_from(job, window << job.log_tile) - 1;
      piece = later_piece(job.log_tile, job.segments, s, window);
    } else {
      s = of_line;
      const int64_t begin = job.segments.begin(s);
      n = job.segments.end(s) - begin;
      piece = first_piece(job.log_tile, begin, n);
      window = (begin + s) >> job.log_tile;
    }
    const auto of = [&](int e) { return published(job, line + e, window, launch_tag(number)); };
    const char* const p = job.data(outer, line) + piece.begin * job.layout.length_bytes;
    fold_in_thread<Op, V, true>(v, piece.n, ElementRows<S, V>{job, p}, [&](int k, const Value(&digit)[V]) {
      if (!of_window) return;
#pragma unroll
      for (int e = 0; e < V; e++) of(e).publish(k, digit[e]);
    });
    if (of_window) {
      for (int k = 0; k <= job.log_tile; k++)
        if (!(piece.n >> k & 1))
#pragma unroll
          for (int e = 0; e < V; e++) of(e).publish(k, Value{});
    } else {
      waits = n >> job.log_tile > kFewTiles;
      if (n > piece.n && !waits)
#pragma unroll
        for (int e = 0; e < V; e++) v[e] = fold_tiles_in_thread<Op>(of(e), n, v[e]);
      if (!waits) job.store(outer, line, s, n, v);
    }
  }
  if (window_blocks == 0) return;
  const int lane = threadIdx.x & 31;
  for (unsigned left = __ballot_sync(kFullWarp, waits); left != 0; left &= left - 1) {
    const int of = __ffs(int(left)) - 1;
#pragma unroll
    for (int e = 0; e < V; e++) {
      const Published<Value> tiles = published(job, shuffle(line, of) + e, shuffle(window, of), launch_tag(number));
      const Value fold = fold_tiles_in_warp<Op>(tiles, shuffle(n, of), shuffle(v[e], of), digits[threadIdx.x >> 5]);
      if (lane == of) job.store(outer, line + e, s, n, fold);
      __syncwarp();
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) release(job.tile_state, gridDim.x, launch_tag(number));
}

}  // namespace torch_reductions::cuda::segment
