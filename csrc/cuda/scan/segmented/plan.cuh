// How a call with packed segments is divided over blocks. None of this changes a bit of the result.
#pragma once
#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "block.cuh"

namespace torch_reductions::cuda::scan {

// As many blocks as are resident take the stretches one after the other.
template <class Job, bool Rows>
void scan_stretches(const Job& job, const Windows& windows, Context& context) {
  using Op = typename Job::Op;
  using Memory = SegmentMemory<Op, Rows>;
  constexpr int kReservedBytes = 1024;  // of a block's shared memory, by the system
  static_assert(sizeof(Memory) <= 64 * 1024, "what a block of 7.5 may have");
  const int bytes = int(Memory::bytes(windows.levels));
  list_stretches(windows, (Memory::kElements >> windows.log_lines) - Memory::R,
                 context.stream);  // a run stays free after them
  const int by_memory = (shared_memory(context.device) + kReservedBytes) / (bytes + kReservedBytes);
  const int64_t resident = int64_t(multiprocessors(context.device)) * min(by_memory, kSegmentBlocks<Op>);
  const int64_t count = int64_t(windows.windows) * windows.strips;
  launch(&scan_segments<Job, Rows>, min(count, resident), kSegmentThreads<Op>, bytes, context.stream, job, windows);
}

// Job::join makes all lines one, and is false where they do not follow one another in memory: a window then holds many
// short ones, whose segments end where they do.
template <class Job>
void run_segments(Job job, const Segments& segments, int64_t outer, int64_t inner, Context& context) {
  using Op = typename Job::Op;
  using Value = typename Op::Value;
  Windows windows{.segments = JoinedSegments(segments), .inner = inner, .reverse = job.reverse};
  while (windows.log_lines < kSegmentLogLines<Value, false> && int64_t(1) << windows.log_lines < inner)
    windows.log_lines++;
  windows.log_window = log2_of(SegmentMemory<Op, false>::kTile) - windows.log_lines;
  const int64_t tiles = ceil_div(segments.length, int64_t(1) << windows.log_window);  // of a segment, at most
  if (tiles == 1 && JoinedSegments::may_join(segments, outer) && job.join(outer))
    windows.segments = JoinedSegments(segments, outer), outer = 1;
  windows.lines = outer * inner;
  if constexpr (Job::kVector > 1) windows.in_vectors = Job::kVector <= 1 << windows.log_lines && job.in_vectors();
  const int64_t count = ceil_div(windows.segments.length, int64_t(1) << windows.log_window);
  const int64_t strips_of_outer = ceil_div(inner, int64_t(1) << windows.log_lines);
  const int64_t strips = outer * strips_of_outer;
  if (strips > INT32_MAX || count > INT32_MAX / strips) fail("more windows of segments than 2^31 - 1");
  windows.windows = unsigned(count);
  windows.strips_of_outer = unsigned(strips_of_outer);
  windows.strips = unsigned(strips);
  windows.levels = Carry<kLaneRadix>::levels_of(tiles);
  if (windows.levels > kMaxLevels) fail("segments of too many tiles");
  if (windows.levels > 0)
    windows.tile_state = context.tile_state(windows.levels * count * windows.lines * kTaggedWords<Value>);
  windows.list = static_cast<Stretch*>(context.workspace(2 * count * sizeof(Stretch)));
  if constexpr (Job::kRows)  // others do not pay for a kernel of their own
    if (windows.log_lines == 0) return scan_stretches<Job, true>(job, windows, context);
  scan_stretches<Job, false>(job, windows, context);
}

}  // namespace torch_reductions::cuda::scan
