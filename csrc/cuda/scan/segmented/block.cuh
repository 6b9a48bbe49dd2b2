// The kernel for packed segments: blocks that take stretch after stretch.
//
// Local:   scan_segments (8 bytes): of extremes of doubles, so that three blocks are resident
#pragma once
#include "../../primitives/shared.cuh"
#include "alone.cuh"
#include "runs.cuh"

namespace torch_reductions::cuda::scan {

template <class Job, bool Rows>
struct SegmentBlock {
  using Tile = SegmentTile<Job, Rows>;
  using Value = typename Tile::Value;
  using Alone = AloneStretch<Tile>;
  using Several = RunsOfStretch<Tile>;

  const Job& job;
  const Windows& windows;
  typename Tile::Memory& memory;
  const unsigned count = windows.windows * windows.strips;

  __device__ __forceinline__ Work& work(unsigned n) const { return memory.work[n % (kStretches + 1)]; }
  __device__ __forceinline__ Tile tile(unsigned n) const { return {job, windows, memory, n}; }

  // ---------------------------------------------------------------- by one thread: which stretch comes next

  // Stretch n is the other one of a window, or the first one of a new window, whose number this requests. A block draws
  // numbers until there are no more, so that the number of draws is known.
  __device__ __forceinline__ uint64_t request_number(unsigned n) const {
    const bool draws = windows.levels > 0 && (n == 0 || !work(n - 1).stretch.another);
    return draws ? request_tickets(windows.tile_state, 1) : 0;
  }
  __device__ __forceinline__ void look_up(unsigned n, uint64_t answer) const {
    Work& next = work(n);
    const bool other = n > 0 && work(n - 1).stretch.another;
    if (other) next.number = work(n - 1).number;
    else if (windows.levels == 0) next.number = n == 0 ? blockIdx.x : work(n - 1).number + gridDim.x;
    else {
      const Ticket ticket = tickets(windows.tile_state, answer, 1, count + gridDim.x - 1);
      next.number = ticket.number;
      if (n == 0) memory.tag = ticket.tag;
    }
    if (next.number >= count) return;
    next.other = other;
    next.window = next.number / windows.strips;
    const unsigned strip = next.number - next.window * windows.strips;
    next.outer = strip / windows.strips_of_outer;
    next.strip = strip - next.outer * windows.strips_of_outer;
    const auto* const from = reinterpret_cast<const uint4*>(windows.list + (other ? windows.windows : 0) + next.window);
#pragma unroll
    for (int i = 0; i < int(sizeof(Stretch) / 16); i++) cp_async(reinterpret_cast<uint4*>(&next.stretch) + i, from + i);
  }

  // ---------------------------------------------------------------- by all threads

  // Stores what the thread then knows: the total of its run where a stretch is one tile, otherwise where its segment
  // ends.
  __device__ __forceinline__ void read(const Tile& tile) const {
    tile.issue_load();
    cp_async_commit();
    if (tile.stretch.alone()) {
      cp_async_wait<0>();
      tile.hide();
      __syncwarp();
      tile.total() = Alone{tile}.up();
      return;
    }
    const Several several{tile};
    tile.end() = threadIdx.x < several.segments() ? several.end_of(threadIdx.x) : 0;
    cp_async_wait<0>();
    tile.hide();
  }
  __device__ __forceinline__ void publish(const Tile& tile) const {
    if (windows.levels == 0 || tile.work.other) return;
    tile.publish_placeholders(tile.stretch.whole ? Alone{tile}.publish() : 0);
  }
  __device__ __forceinline__ void scan(const Tile& tile) const {
    if (tile.stretch.alone()) {
      Alone{tile}.down();
      __syncwarp();
    } else {
      Several{tile}.scan();
      __syncthreads();
    }
    tile.store();
  }

  // A stretch is read, and the total of its tile is published, before the stretch before it is scanned: what that reads
  // in its look-back has mostly been published long before. Its number is requested late, so that no thread waits for
  // it, and thread 0 has the answer when it is due.
  __device__ __forceinline__ void run() const {
    if (threadIdx.x == 0) {
      look_up(0, request_number(0));
      cp_async_commit();
      cp_async_wait<0>();
    }
    __syncthreads();
    for (unsigned n = 0;; n++) {
      const bool more = work(n).number < count;
      if (more) read(tile(n));
      __syncthreads();
      uint64_t answer = 0;
      if (more) {
        publish(tile(n));
        if (threadIdx.x == 0) answer = request_number(n + 1);
      }
      if (n > 0) tile(n - 1).look_back();
      __syncthreads();
      if (more && threadIdx.x == 0) look_up(n + 1, answer);
      cp_async_commit();
      if (n > 0) scan(tile(n - 1));
      if (!more) return;
      cp_async_wait<0>();
      __syncthreads();
    }
  }
};

template <class Job, bool Rows>
__global__ void __launch_bounds__(kSegmentThreads<typename Job::Op>, kSegmentBlocks<typename Job::Op>)
    scan_segments(const __grid_constant__ Job job, const __grid_constant__ Windows windows) {
  using Block = SegmentBlock<Job, Rows>;
  Block{job, windows, *reinterpret_cast<typename Block::Tile::Memory*>(memory)}.run();
}

}  // namespace torch_reductions::cuda::scan
