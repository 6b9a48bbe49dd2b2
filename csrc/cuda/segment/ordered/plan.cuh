// Which kernel folds the segments, and how large a tile is. None of this changes a bit of the result.
#pragma once
#include <algorithm>
#include <limits>
#include <utility>

#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "lines.cuh"
#include "long_rows.cuh"
#include "packed_rows.cuh"
#include "rest.cuh"
#include "short_lines.cuh"

namespace torch_reductions::cuda::segment {

template <class T, class Op>
class SegmentPlan {
  using S = Input<T, Op>;
  using Value = typename Op::Value;

 public:
  SegmentPlan(const SegmentArgs& args, Context& context)
      : args_(args), context_(context), sms_(multiprocessors(context.device)), lines_(args.outer * args.inner) {}

  void run() {
    if (joins()) rows(JoinedSegments(args_.segments, args_.outer), 1);
    else if (args_.length_stride != 1 || args_.length <= 1) are_short() ? short_lines() : lines();
    else if (are_few_and_short()) short_lines();
    else if (average() < 32) rows(args_.segments, lines_);
    else if (are_large()) warps();
    else if (results() <= sms_ * kBlocksPerSm || average() > kUnit << kLogSegmentUnits) blocks();
    else if (average() >= kWarpLength) warps();
    else rows(args_.segments, lines_);
  }

 private:
  static constexpr int64_t kUnit = int64_t(1) << kLogUnit<S>;
  static constexpr int kLogSegmentUnits = 5;       // that a warp folds, at most
  static constexpr int64_t kBlocksPerSm = 16;      // segments of a multiprocessor, up to which each has a block
  static constexpr int64_t kLargePerSm = 1 << 16;  // elements of 8 bytes, from which a warp is enough
  static constexpr int64_t kWarpLength = 256;      // from which a segment of many has a warp
  static constexpr int64_t kVectorThreads = 128;   // of a multiprocessor, from which a thread takes several lines

  // Are the lines one? Where they follow one another in memory, and the least tile holds more than one of them.
  bool joins() const {
    const int64_t length = args_.length, count = args_.segments.count;
    return args_.inner == 1 && args_.length_stride == 1 && args_.outer_stride == length && length > 0 &&
           length + count <= kUnit && JoinedSegments::may_join(args_.segments, args_.outer);
  }
  int64_t results() const { return lines_ * args_.segments.count; }
  int64_t average() const { return args_.length / args_.segments.count; }

  // Would threads that take a window of a line fold many segments one after the other, or be few?
  bool are_short() const {
    const int64_t most = results() < sms_ * int64_t(32) ? 16 : results() < sms_ * int64_t(4096) ? 32 : 100;
    return args_.segments.count > 1 && average() <= most &&
           (lines_ < sms_ * int64_t(in_vectors() ? 4096 : 256) || average() >= 8);
  }

  // Segments of contiguous lines: do threads fold them at once, of which a warp would fold one part after the other?
  bool are_few_and_short() const {
    return args_.segments.count > 1 && average() <= 8 && results() <= sms_ * int64_t(128);
  }

  // Of 8 bytes: do warps, with windows of their own, keep more in flight than blocks, whose warps wait for one another?
  bool are_large() const {
    return sizeof(T) == 8 && lines_ * args_.length >= sms_ * kLargePerSm && average() >= kWarpLength &&
           results() >= sms_ / 4;
  }

  template <class Offsets>
  static int64_t windows_of(const Offsets& segments, int log_tile) {
    return ceil_div(segments.length + segments.count, int64_t(1) << log_tile);
  }
  // May a segment have several tiles? Where none has, one window is enough.
  bool splits(int log_tile) const { return args_.length > int64_t(1) << log_tile; }
  int64_t windows_of(int log_tile) const { return splits(log_tile) ? windows_of(args_.segments, log_tile) : 1; }

  // A warp per window: the largest tile that leaves work for every multiprocessor.
  template <class Offsets>
  void rows(const Offsets& segments, int64_t lines) {
    const auto windows = [&](int log_tile) { return windows_of(segments, log_tile); };
    int log_tile = kLogUnit<S> + 5;
    while (log_tile > kLogUnit<S> && lines * windows(log_tile) < 64 * sms_) log_tile--;
    launch(&segment_rows<S, Offsets>, ceil_div(lines * windows(log_tile), kPackedThreads / 32), kPackedThreads, 0,
           context_.stream, publishing(job(lines, windows(log_tile), log_tile)), segments);
  }

  // A block per segment: as many warps as one of average length has units; more for the longer ones where blocks are
  // few. A tile is several times as long, so that few have a second one, but leaves work for every multiprocessor, more
  // of it where lengths differ: a block folds the units of its warps one after the other.
  void blocks() {
    int log_warps = 0, log_units = 5;
    while (log_warps < kLogRowWarps && (average() > kUnit << log_warps ||
                                        (4 * average() > kUnit << log_warps && results() << log_warps <= sms_ * 8)))
      log_warps++;
    const auto log_tile = [&] { return kLogUnit<S> + log_warps + log_units; };
    const auto all = [&] { return lines_ * (windows_of(log_tile()) - 1) + results(); };
    while (log_units > 0 && all() < sms_ * int64_t(log_units > 3 ? 16 : average() < int64_t(1) << log_tile() ? 10 : 3))
      log_units--;
    launch(&segment_long_rows<S, true>, all(), 32u << log_warps, 0, context_.stream,
           publishing(job(lines_, windows_of(log_tile()), log_tile())));
  }

  // A warp per segment.
  void warps() {
    int log_tile = kLogUnit<S> + 3;
    while (log_tile < kLogUnit<S> + kLogSegmentUnits && 8 * average() > int64_t(1) << log_tile) log_tile++;
    const int64_t all = lines_ * (windows_of(log_tile) - 1) + results();
    launch(&segment_long_rows<S, false>, ceil_div(all, int64_t(1) << kLogRowWarps), 32u << kLogRowWarps, 0,
           context_.stream, publishing(job(lines_, windows_of(log_tile), log_tile)));
  }

  // A thread per segment of a line. Where threads are few, tiles are smaller, down to twice the average length: a
  // thread folds one element after the other.
  void short_lines() {
    int log_tile = kLogLineTile;
    while (log_tile > kLeastLogShortTile && int64_t(4) * average() <= int64_t(1) << log_tile &&
           lines_ * windows_of(log_tile) + results() < sms_ * int64_t(256))
      log_tile--;
    const int64_t windows = windows_of(log_tile);
    with_vectors(results(), [&]<int V>(std::integral_constant<int, V>) {
      const int64_t groups = lines_ / V, pieces = results() / V;
      const int64_t window_blocks = ceil_div(groups * (windows - 1), kLineThreads);
      launch(&segment_short_lines<S, V>, window_blocks + ceil_div(pieces, kLineThreads), kLineThreads, 0,
             context_.stream, publishing(job(lines_, windows, log_tile)),
             groups <= INT32_MAX ? FastDiv(groups) : FastDiv(), pieces, unsigned(window_blocks));
    });
  }

  // May a thread read the elements of several lines as one vector?
  bool in_vectors() const {
    const auto whole = [](int64_t elements) { return elements % kLineVector<S> == 0; };
    return kLineVector<S> > 1 && args_.inner_stride == 1 && whole(args_.inner) && whole(args_.length_stride) &&
           (args_.outer == 1 || whole(args_.outer_stride)) &&
           reinterpret_cast<uintptr_t>(args_.input) % (kLineVector<S> * sizeof(T)) == 0 &&
           reinterpret_cast<uintptr_t>(args_.output) % 16 == 0;
  }

  // body(how many lines a thread takes), given the number of threads where each takes one: several lines if threads are
  // left for every multiprocessor.
  template <class Body>
  void with_vectors(int64_t threads, Body body) const {
    constexpr int V = kLineVector<S>;
    if constexpr (V > 1)
      if (in_vectors() && threads / V >= sms_ * kVectorThreads) return body(std::integral_constant<int, V>());
    body(std::integral_constant<int, 1>());
  }

  // A thread per window of a line: the largest tile that leaves work for every multiprocessor; a small one only where
  // threads are few, which then fold one after the other what waits for memory. Nor so small that segments of lines
  // this short have several tiles: the second launch would take longer.
  void lines() {
    const auto windows = [&](int log_tile) { return windows_of(args_.segments, log_tile); };
    int log_tile = kLogLineTile;
    while (log_tile > kLeastLogLineTile &&
           lines_ * windows(log_tile) < int64_t(log_tile > kSmallLogLineTile ? 1024 : 32) * sms_ &&
           !(args_.length <= 1 << kSmallLogLineTile && splits(log_tile - 1)))
      log_tile--;
    Job<S> job = this->job(lines_, windows(log_tile), log_tile);
    const int64_t work = lines_ * job.windows;
    if (splits(log_tile))
      job.slots = static_cast<Value*>(context_.workspace(size_t(work) * size_t(log_tile + 2) * sizeof(Value)));
    with_vectors(work, [&]<int V>(std::integral_constant<int, V>) {
      launch(&segment_lines<S, V>, ceil_div(work / V, kLineThreads), kLineThreads, 0, context_.stream, job);
    });
    if (!splits(log_tile)) return;
    const int each_block = int(std::clamp(results() / (int64_t(8) * sms_), int64_t(1), int64_t(kRestThreads)));
    launch_dependent(&segment_rest<S>, ceil_div(results(), each_block), kRestThreads, 0, context_, job, each_block);
  }

  // With room for what windows publish, where segments may have several tiles.
  Job<S> publishing(Job<S> job) const {
    if (splits(job.log_tile))
      job.tile_state = context_.tile_state(job.lines * job.windows * (job.log_tile + 1) * kTaggedWords<Value>);
    return job;
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
            .tile_state = {},
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
  const int64_t lines_;
};

}  // namespace torch_reductions::cuda::segment
