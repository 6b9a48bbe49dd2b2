// Which kernel folds the segments, and how large a tile is. None of this changes a bit of the result.
#pragma once
#include <algorithm>
#include <limits>
#include <utility>

#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "lines.cuh"
#include "packed_rows.cuh"
#include "rest.cuh"

namespace torch_reductions::cuda::segment {

inline constexpr int64_t kFewSegments = 8;  // that a warp folds sooner than a second launch begins

template <class T, class Op>
class SegmentPlan {
  using S = Input<T, Op>;
  using Value = typename Op::Value;

 public:
  SegmentPlan(const SegmentArgs& args, Context& context)
      : args_(args), context_(context), sms_(multiprocessors(context.device)) {}

  void run() {
    const bool joined = joins(), rows = joined || (args_.length_stride == 1 && args_.length > 1);
    const JoinedSegments segments(args_.segments, joined ? args_.outer : 1);
    // The largest tile that leaves work for every multiprocessor; of lines a small one only where threads are few, which
    // then fold one after the other what waits for memory.
    const int64_t lines = (joined ? 1 : args_.outer) * args_.inner, places = segments.length + segments.count;
    const auto work = [&](int log_tile) { return lines * ceil_div(places, int64_t(1) << log_tile); };
    int log_tile = rows ? kLogUnit<S> + 5 : kLogLineTile;
    const int least = rows ? kLogUnit<S> : kLeastLogLineTile;
    const auto wanted = [&] { return int64_t(rows ? 64 : log_tile > kSmallLogLineTile ? 1024 : 32); };
    // Nor so small that segments of lines this short have several tiles: the second launch would take longer. A warp
    // folds the segments of a row one after the other, so that they must be few.
    const int64_t row = segments.count <= kFewSegments ? int64_t(4) << kLogUnit<S> : 0;
    const int64_t one_launch = rows ? row : int64_t(1) << kSmallLogLineTile;
    const auto splits = [&](int log_tile) { return args_.length > int64_t(1) << log_tile; };
    while (log_tile > least && work(log_tile) < wanted() * sms_ &&
           !(args_.length <= one_launch && splits(log_tile - 1)))
      log_tile--;

    Job<S> job = this->job(lines, work(log_tile) / lines, log_tile);
    const bool several = splits(log_tile);  // a segment may have more than one tile
    if (several)
      job.slots =
          static_cast<Value*>(context_.workspace(size_t(work(log_tile)) * size_t(log_tile + 2) * sizeof(Value)));
    const auto launch_rows = [&](const auto& offsets) {
      launch(&segment_rows<S, std::decay_t<decltype(offsets)>>, ceil_div(work(log_tile), kPackedThreads / 32),
             kPackedThreads, 0, context_.stream, job, offsets);
    };
    if (joined) launch_rows(segments);
    else if (rows) launch_rows(args_.segments);
    else launch(&segment_lines<S>, ceil_div(work(log_tile), kLineThreads), kLineThreads, 0, context_.stream, job);
    if (!several) return;
    const int64_t pairs = lines * args_.segments.count;
    const int each_block = int(std::clamp(pairs / (int64_t(8) * sms_), int64_t(1), int64_t(kRestThreads)));
    launch_dependent(&segment_rest<S>, ceil_div(pairs, each_block), kRestThreads, 0, context_, job, each_block);
  }

 private:
  // Are the lines one? Where they follow one another in memory, and the least tile holds more than one of them.
  bool joins() const {
    const int64_t length = args_.length, count = args_.segments.count;
    return args_.inner == 1 && args_.length_stride == 1 && args_.outer_stride == length && length > 0 &&
           length + count <= 1 << kLogUnit<S> && JoinedSegments::may_join(args_.segments, args_.outer);
  }

  Job<S> job(int64_t lines, int64_t windows, int log_tile) const {
    const bool flipped = args_.function == Segment::segment_amin;
    const int64_t size = sizeof(T);
    return {.source = {flipped ? kFlip<Native<T>> : 0, args_.input_dtype == Dtype::int8 ? 128 : 0},
            .layout = {static_cast<const char*>(args_.input), args_.inner, args_.outer_stride * size,
                       args_.inner_stride * size, args_.length_stride * size},
            .lines = lines,
            .windows = windows,
            .log_tile = log_tile,
            .segments = args_.segments,
            .out = {args_.output, args_.output_dtype, flipped, 0},
            .mean = args_.function == Segment::segment_mean,
            .empty = empty_value(flipped),
            .slots = nullptr};
  }

  // The result of an empty segment: 0, 1, NaN for a mean; for an extreme the value that every element of the type
  // replaces, flipped as the elements are.
  Value empty_value(bool flipped) const {
    if constexpr (!kExtreme<Op>) {
      if constexpr (std::is_floating_point_v<Value>)
        if (args_.function == Segment::segment_mean) return std::numeric_limits<Value>::quiet_NaN();
      return Value(args_.function == Segment::segment_prod);
    } else if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      const auto bounds = [&]() -> std::pair<Value, Value> {
        if (args_.input_dtype == Dtype::boolean) return {0, 1};
        if (args_.input_dtype == Dtype::int8) return {-128, 127};  // read as uint8
        return {Value(Limits::lowest()), Value(Limits::max())};
      }();
      return flipped ? Value(~bounds.second) : bounds.first;
    } else {
      return Op::identity();
    }
  }

  const SegmentArgs& args_;
  Context& context_;
  const int sms_;
};

}  // namespace torch_reductions::cuda::segment
