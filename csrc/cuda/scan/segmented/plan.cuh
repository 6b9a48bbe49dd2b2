// How a call with packed segments is cut. None of this changes a bit of the result.
#pragma once
#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "block.cuh"

namespace torch_reductions::cuda {

template <class Job>
void run_segments(const Job& job, const Segments& segments, int64_t outer, int64_t inner, bool reverse,
                  Context& context) {
  using Value = typename Job::Op::Value;
  Windows windows{.segments = segments, .board = {}, .inner = inner, .reverse = reverse};
  while (windows.log_lines < 5 && int64_t(1) << windows.log_lines < inner) windows.log_lines++;
  windows.log_window = log2_of(SegmentMemory<Value>::kElements) - windows.log_lines;
  const int64_t count = ceil_div(segments.length, int64_t(1) << windows.log_window);
  const int64_t strips_of_outer = ceil_div(inner, int64_t(1) << windows.log_lines);
  if (count > INT32_MAX || outer * strips_of_outer > INT32_MAX)
    fail("more windows of segments than a launch has blocks");
  windows.windows = unsigned(count);
  windows.strips_of_outer = unsigned(strips_of_outer);
  windows.strips = unsigned(outer * strips_of_outer);
  while ((count - 1) >> (kSegmentRadix * windows.levels) > 0) windows.levels++;
  if (windows.levels > kMaxLevels) fail("segments of too many tiles");
  if (windows.levels > 0) windows.board = context.board(windows.levels * count * outer * inner * kTaggedWords<Value>);
  const int64_t blocks = count * windows.strips;
  if constexpr (sizeof(Value) <= 8 && kIsNone<typename Job::Op, LogAdd>)  // others do not pay for a kernel of their own
    if (windows.log_lines == 0)
      return launch(&scan_segments<Job, true>, blocks, kSegmentThreads, 0, context.stream, job, windows);
  launch(&scan_segments<Job, false>, blocks, kSegmentThreads, 0, context.stream, job, windows);
}

}  // namespace torch_reductions::cuda
