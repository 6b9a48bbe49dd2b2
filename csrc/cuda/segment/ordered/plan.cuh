// Which kernel folds the segments, and how large a tile is. None of this changes a bit of the result.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "lines.cuh"
#include "long_rows.cuh"
#include "packed_rows.cuh"
#include "rest.cuh"
#include "short_lines.cuh"
#include "tiny_lines.cuh"

namespace torch_reductions::cuda::segment {

template <class T, class Op>
class SegmentPlan {
  using S = Input<T, Op>;
  using Value = typename Op::Value;

 public:
  SegmentPlan(const SegmentArgs& args, Context& context)
      : args_(args), context_(context), sms_(multiprocessors(context.device)), lines_(args.outer * args.inner) {}

  void run() {
    if (args_.length <= kTinyLength && !is_contiguous()) return tiny_lines();
    const Way way = quickest();
    switch (way.kernel) {
      case Kernel::rows: return joins() ? rows(joined(), 1, way.log_tile) : rows(args_.segments, lines_, way.log_tile);
      case Kernel::blocks: return blocks(way);
      case Kernel::warps: return warps(way);
      case Kernel::short_lines: return short_lines(way);
      case Kernel::lines: return lines(way);
    }
  }

 private:
  static constexpr int kLogUnits = 5;             // units of a tile that a warp folds, at most
  static constexpr int64_t kVectorThreads = 128;  // of a multiprocessor, from which a thread takes several lines
  static constexpr int64_t kFarApart = 1 << 13;   // segments of a multiprocessor, from which a thread of contiguous
                                                  // ones reads too little of what it fetches
  enum class Kernel { rows, blocks, warps, short_lines, lines };
  struct Way {
    Kernel kernel;
    int log_tile, log_warps;  // of a block
  };

  bool is_contiguous() const { return args_.length_stride == 1 && args_.length > 1; }

  // Are the lines one? Where they follow one another in memory, and the least tile holds more than one of them.
  bool joins() const {
    const int64_t length = args_.length, count = args_.segments.count;
    return args_.inner == 1 && args_.length_stride == 1 && args_.outer_stride == length && length > 0 &&
           length + count <= int64_t(1) << kLogUnit<S> && JoinedSegments::may_join(args_.segments, args_.outer);
  }
  JoinedSegments joined() const { return JoinedSegments(args_.segments, args_.outer); }
  int64_t results() const { return lines_ * args_.segments.count; }

  static int64_t tiles(int64_t elements, int log_tile) { return (elements + (int64_t(1) << log_tile) - 1) >> log_tile; }
  template <class Offsets>
  static int64_t windows_of(const Offsets& segments, int log_tile) {
    return tiles(segments.length + segments.count, log_tile);
  }
  // May a segment have several tiles? Where none has, one window is enough.
  bool splits(int log_tile) const { return args_.length > int64_t(1) << log_tile; }
  int64_t windows_of(int log_tile) const { return splits(log_tile) ? windows_of(args_.segments, log_tile) : 1; }
  // The workers where each segment of each line has one, and each window but the first.
  int64_t workers(int log_tile) const { return lines_ * (windows_of(log_tile) - 1) + results(); }

  // --- What is quickest ----------------------------------------------------------------------------------------------

  // Lengths differ: at random places, few are longer than this.
  double longest() const { return std::min(3 * average(), double(args_.length)); }
  double average() const { return double(args_.length) / args_.segments.count; }
  double longest_tile(int log_tile) const { return std::min(longest(), double(int64_t(1) << log_tile)); }
  double later_tiles(int log_tile) const {
    return splits(log_tile) ? std::ceil(longest() / (int64_t(1) << log_tile)) - 1 : 0;
  }
  double of_multiprocessor(double count) const { return count / sms_; }
  // How often each of so many workers that a multiprocessor has room for begins again.
  double waves(double workers, double room) const { return std::max(1., of_multiprocessor(workers) / room); }
  // 4096 bytes that a multiprocessor reads.
  double pages() const { return of_multiprocessor(double(lines_) * args_.length * sizeof(T)) / 4096; }

  // About how many microseconds an H200 takes, beside what every kernel takes: fitted to times of 480 calls with the
  // sizes and lengths of benchmarks/sweep.py. A worker waits for its loads, one after the other.
  double time_of(const Way& way) const {
    const int log_tile = way.log_tile;
    const double later = later_tiles(log_tile);
    switch (way.kernel) {
      case Kernel::rows: {
        const bool together = joins();
        const double work = double(args_.length + args_.segments.count) * (together ? lines_ : 1);
        const double tile = std::min(work, double(int64_t(1) << log_tile));
        const double windows = (together ? 1 : lines_) * std::ceil(work / (int64_t(1) << log_tile));
        const double segments = tile / (average() + 1);
        const double rounds = std::max({1., tile * sizeof(T) / kPackedBytes, segments / (32 * kPackedLane)});
        const double by_warp = segments * std::exp(-kPackedRow / average());  // that are longer
        return 1 + 5.3 * splits(log_tile) + waves(windows, 20) * (3.9 * rounds + 20 * by_warp) + .26 * pages() +
               .00125 * of_multiprocessor(results());
      }
      case Kernel::blocks:
      case Kernel::warps: {
        const double units = std::ceil(longest_tile(log_tile) / (int64_t(1) << (kLogUnit<S> + way.log_warps)));
        return 1.8 * splits(log_tile) +
               waves(workers(log_tile), way.kernel == Kernel::warps ? 40 : 18 >> way.log_warps) * (3.5 + .67 * units) +
               .05 * pages() + .016 * later;
      }
      case Kernel::short_lines: {
        const int V = lines_of_thread(results());
        const bool contiguous = args_.length_stride == 1;
        const double fetched = std::min(1., average() * sizeof(T) / 32);  // of what lanes apart from each other read
        return 1.5 + 3.5 * splits(log_tile) +
               waves(double(workers(log_tile)) / V, V > 1 ? 512 : 1024) *
                   (1.2 + (contiguous ? .0625 : .0375) * longest_tile(log_tile) +
                    .2 * std::min(later, kFewTiles * 1.)) +
               (.09 + (contiguous ? .88 / sizeof(T) * fetched : 0)) * pages() + (later > kFewTiles ? .08 * later : 0);
      }
      default: {
        const double windows = double(lines_) * windows_of(args_.segments, log_tile);
        const int V = lines_of_thread(windows);
        const double work = std::min(double(args_.length + args_.segments.count), double(int64_t(1) << log_tile));
        const double of_thread = waves(windows / V, V > 1 ? 512 : 1024);
        const double late = of_thread == 1 && log_tile > kSmallLogLineTile ? 1.15 : 1;  // nothing is fetched beforehand
        return 1.4 + of_thread * (.0625 * late * work + .7 * (work / (average() + 1) + 1)) + .2 * pages() +
               splits(log_tile) *
                   (8 + (rests_by_window(log_tile) ? .003 : .0006) * of_multiprocessor(rest_of(log_tile)) +
                    .0008 * later);
      }
    }
  }

  Way quickest() const {
    Way best{};
    double least = INFINITY;
    const auto consider = [&](Kernel kernel, int log_tile, int log_warps = 0) {
      const Way way{kernel, log_tile, log_warps};
      const double time = time_of(way);
      if (time < least) least = time, best = way;
    };
    const bool contiguous = is_contiguous();
    if (!contiguous)
      for (int log_tile = kLogLineTile; log_tile >= kLeastLogLineTile; log_tile--) consider(Kernel::lines, log_tile);
    if (!contiguous || (average() < kPackedRow && results() <= sms_ * kFarApart))
      for (int log_tile = kLeastLogShortTile; log_tile <= kLogLineTile; log_tile++)  // of equals the smallest: some
        consider(Kernel::short_lines, log_tile);                                     // segment may be very long
    if (!contiguous) return best;
    for (int log_units = 0; log_units <= kLogUnits; log_units++) {
      const int log_tile = kLogUnit<S> + log_units;
      if (average() < kPackedRow) consider(Kernel::rows, log_tile);
      consider(Kernel::warps, log_tile);
      for (int log_warps = 0; log_warps <= kLogRowWarps && average() >= 32; log_warps++)
        consider(Kernel::blocks, log_tile + log_warps, log_warps);
    }
    return best;
  }

  // --- The kernels ---------------------------------------------------------------------------------------------------

  // A warp per window.
  template <class Offsets>
  void rows(const Offsets& segments, int64_t lines, int log_tile) {
    const int64_t windows = windows_of(segments, log_tile);
    launch(&segment_rows<S, Offsets>, ceil_div(lines * windows, kPackedThreads / 32), kPackedThreads, 0,
           context_.stream, publishing(job(lines, windows, log_tile)), segments);
  }

  // A block per segment.
  void blocks(const Way& way) {
    launch(&segment_long_rows<S, true>, workers(way.log_tile), 32u << way.log_warps, 0, context_.stream,
           publishing(job(way.log_tile)));
  }

  // A warp per segment.
  void warps(const Way& way) {
    launch(&segment_long_rows<S, false>, ceil_div(workers(way.log_tile), int64_t(1) << kLogRowWarps),
           32u << kLogRowWarps, 0, context_.stream, publishing(job(way.log_tile)));
  }

  // A thread per segment of a line, of few elements.
  void tiny_lines() {
    with_vectors(results(), [&]<int V>(std::integral_constant<int, V>) {
      const int64_t groups = lines_ / V, pieces = results() / V;
      launch(&segment_tiny_lines<S, V>, ceil_div(pieces, kLineThreads), kLineThreads, 0, context_.stream,
             job(lines_, 1, kLeastLogLineTile), FastDiv(groups), pieces);
    });
  }

  // A thread per segment of a line.
  void short_lines(const Way& way) {
    const int64_t windows = windows_of(way.log_tile);
    with_vectors(results(), [&]<int V>(std::integral_constant<int, V>) {
      const int64_t groups = lines_ / V, pieces = results() / V;
      const int64_t window_blocks = ceil_div(groups * (windows - 1), kLineThreads);
      launch(&segment_short_lines<S, V>, window_blocks + ceil_div(pieces, kLineThreads), kLineThreads, 0,
             context_.stream, publishing(job(way.log_tile)), FastDiv(groups), pieces, unsigned(window_blocks));
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

  // Of the lines, if they are folded by so many threads where each takes one: several if threads are left for every
  // multiprocessor.
  int lines_of_thread(double threads) const {
    return in_vectors() && threads / kLineVector<S> >= sms_ * kVectorThreads ? kLineVector<S> : 1;
  }

  // body(how many lines a thread takes).
  template <class Body>
  void with_vectors(int64_t threads, Body body) const {
    constexpr int V = kLineVector<S>;
    if constexpr (V > 1)
      if (lines_of_thread(threads) > 1) return body(std::integral_constant<int, V>());
    body(std::integral_constant<int, 1>());
  }

  // Does the second launch of lines() have a thread for each window of a line, not for each segment?
  bool rests_by_window(int log_tile) const { return 2 * windows_of(args_.segments, log_tile) <= args_.segments.count; }
  int64_t rest_of(int log_tile) const {
    return lines_ * (rests_by_window(log_tile) ? windows_of(args_.segments, log_tile) : args_.segments.count);
  }

  // A thread per window of a line.
  void lines(const Way& way) {
    Job<S> job = this->job(lines_, windows_of(args_.segments, way.log_tile), way.log_tile);
    const int64_t work = lines_ * job.windows;
    if (splits(way.log_tile))
      job.slots = static_cast<Value*>(context_.workspace(size_t(work) * size_t(way.log_tile + 2) * sizeof(Value)));
    with_vectors(work, [&]<int V>(std::integral_constant<int, V>) {
      launch(&segment_lines<S, V>, ceil_div(work / V, kLineThreads), kLineThreads, 0, context_.stream, job);
    });
    if (!splits(way.log_tile)) return;
    const int64_t rest = rest_of(way.log_tile);
    const int each_block = int(std::clamp(rest / (int64_t(8) * sms_), int64_t(1), int64_t(kRestThreads)));
    launch_dependent(&segment_rest<S>, ceil_div(rest, each_block), kRestThreads, 0, context_, job, rest, each_block,
                     rests_by_window(way.log_tile));
  }

  // With room for what windows publish, where segments may have several tiles.
  Job<S> publishing(Job<S> job) const {
    if (splits(job.log_tile))
      job.tile_state = context_.tile_state(job.lines * job.windows * (job.log_tile + 1) * kTaggedWords<Value>);
    return job;
  }

  Job<S> job(int log_tile) const { return job(lines_, windows_of(log_tile), log_tile); }
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
