// The kernel for packed segments: a block a window.
//
// Local:   scan_segments (16 bytes): of half types in one line, so that four blocks are resident
#pragma once
#include "alone.cuh"
#include "runs.cuh"

namespace torch_reductions::cuda {

template <class Tile>
struct SegmentBlock {
  const Tile& tile;

  __device__ __forceinline__ void scan(const Stretch& stretch, bool whole, int64_t segment_begin) const {
    const AloneStretch<Tile> alone{tile, stretch};
    const RunsOfStretch<Tile> several{tile, stretch};
    if (!stretch.alone) several.clear();
    tile.load(stretch);
    if (stretch.alone) {
      __syncwarp();
      const auto total = alone.up();
      __syncthreads();
      if (whole) alone.publish(segment_begin);
      if (stretch.tile > 0) {
        tile.look_back(stretch.tile, segment_begin);
        __syncthreads();
      }
      alone.down(total);
      __syncwarp();
    } else {
      __syncthreads();
      const int runs = several.list();
      if (stretch.tile > 0) tile.look_back(stretch.tile, segment_begin);
      several.scan(runs);
      __syncthreads();
    }
    tile.store(stretch);
  }

  // What goes beyond a tile is two stretches: that in front may have to wait, so the other one, for which others may, is first.
  __device__ __forceinline__ void run() const {
    const Owned& own = tile.own;
    const int64_t tile_length = int64_t(1) << tile.windows.log_window;
    const bool apart = own.begins && (own.end - own.begin > tile_length || own.last_start == own.begin);
    const bool whole = (apart || !own.begins) && own.end - (apart ? own.last_start : own.begin) == tile_length;
    if (!whole && tile.windows.levels > 0) tile.publish_nothing();
#pragma unroll 1
    for (bool last = apart;; last = false) {
      const int64_t begin = last ? own.last_start : own.begin, end = apart && !last ? own.last_start : own.end;
      const Stretch stretch{begin, int(end - begin), last || !own.begins, last ? 0 : own.tile};
      if (end > begin) scan(stretch, whole && last == apart, last ? begin : own.continued_from);
      if (!last) break;
      __syncthreads();  // the other one takes the memory
    }
  }
};

template <class Job, bool Rows>
__global__ void __launch_bounds__(kSegmentThreads, kSegmentBlocks<typename Job::Op, Rows>)
    scan_segments(const __grid_constant__ Job job, const __grid_constant__ Windows windows) {
  using Tile = SegmentTile<Job, Rows>;
  __shared__ typename Tile::Memory memory;
  Ticket ticket{blockIdx.x, 0};
  if (windows.levels > 0) {
    if (threadIdx.x == 0) memory.ticket = draw_ticket(windows.board);
    __syncthreads();
    ticket = memory.ticket;
  }
  const unsigned window = ticket.number / windows.strips, strip = ticket.number - window * windows.strips;
  const unsigned outer = strip / windows.strips_of_outer;
  const Tile tile{
      job, windows, memory, find_owned(windows, window, memory.window), outer, strip - outer * windows.strips_of_outer};
  SegmentBlock<Tile>{tile}.run();
}

}  // namespace torch_reductions::cuda
