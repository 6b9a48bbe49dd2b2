// Which ordered kernel runs, and its configuration. None of this changes a bit of the result.
#pragma once

#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "columns.cuh"
#include "long_columns.cuh"
#include "rows.cuh"
#include "short_columns.cuh"
#include "short_rows.cuh"

namespace torch_reductions::cuda::scan {

template <class T, class Op, class S = Input<T, Op>>
class ScanPlan {
  using Result = typename ResultOf<S>::type;
  using Value = typename Op::Value;

  // Only what pays is instantiated: the columns kernel serves every other case.
  static constexpr bool kLong = std::is_same_v<Op, LastMax<Native<T>, int64_t>>;  // of more than 2^31 - 1 elements
  static constexpr bool kRows = !kLong && (sizeof(T) > 2 || sizeof(Value) <= 8);
  static constexpr bool kNarrow = IsPair<T>::value;  // strips of 16 lines
  static constexpr bool kWide = kNarrow || (sizeof(Value) <= 8 && kIsNone<Op, LogAdd> &&
                                            (std::is_floating_point_v<Native<T>> || sizeof(Result) == 8));
  // Pairs of floats are rows alone: as columns they would take as many instructions as float by float.
  static constexpr bool kColumns = !std::is_same_v<T, Pair<float>>;
  static constexpr Direction kDirection = kTwoWays<Op> ? Direction::forward : Direction::either;

 public:
  ScanPlan(const ScanArgs& args, Context& context)
      : args_(args), context_(context), sms_(multiprocessors(context.device)), shared_(shared_memory(context.device)) {
    const int64_t size = sizeof(T);
    static_cast<Input<T, Op>&>(source_) = {args.function == Scan::cummin ? kFlip<Native<T>> : 0,
                                           args.dtype == Dtype::int8 ? 128 : 0};
    lines_ = {static_cast<const char*>(args.input),
              static_cast<char*>(args.output),
              args.indices,
              args.length,
              args.results,
              args.inner,
              args.outer_stride * size,
              args.length_stride * size,
              args.inner_stride * size,
              args.exclusive,
              args.reverse,
              args.mask,
              args.mask.end(args.outer, args.length, args.inner),
              args.before,
              args.before_indices,
              args.totals,
              args.front};
  }

  void run() {
    const int64_t length = args_.length;
    constexpr int kMostOfThread = kIsDear<Op> ? kMostDearShort : kMostShort;
    if constexpr (kRows && kColumns && !IsPair<T>::value)
      if (are_short_rows()) return launch_short_rows(args_.outer, context_, source_, lines_);
    if constexpr (kRows)
      if (args_.inner == 1 && (args_.length_stride == 1 || length <= 1) && !are_short_lines()) return rows();
    if constexpr (kColumns && !kLong) {
      if (length > 0 && length <= kMostOfThread) {
        if (length <= kShort) column_threads(&scan_short_columns<S, kShort>);
        else if (length <= kMostShort) column_threads(&scan_short_columns<S, kMostShort>);
        else if constexpr (kMostOfThread > kMostShort) column_threads(&scan_short_columns<S, kMostOfThread>);
        return;
      }
      if constexpr (kExtreme<Op> || kIsDear<Op>)
        if (has_many_neighbours()) return column_threads(&scan_long_columns<S>);
    }
    if constexpr (kColumns) columns();
  }

 private:
  static constexpr int64_t kThreadsAtWork = 512;  // of a multiprocessor
  // Columns whose runs are long: their length, and the elements of all for each multiprocessor.
  static constexpr int64_t kLongColumn = 1024, kManyElements = 16 << 10;
  static constexpr int kWideRun = kLengthens<S> ? kLongRun : kRun<Op>;  // of wide rows
  static constexpr int kRowRun = kVectors<S> * S::E;
  static constexpr int kNearBytes = 48;                          // of lines side by side
  static constexpr int kMostOddRow = 127, kOddBytes = 1024;      // of rows that are no whole vectors
  static constexpr int kMostNeighbours = kExtreme<Op> ? 8 : 12;  // of lines longer than a run

  // Of lines side by side and what is stored of them.
  int64_t bytes() const {
    return args_.length * args_.inner * int64_t(sizeof(T) + sizeof(Result) + kExtreme<Op> * sizeof(int64_t));
  }

  // Are lines so short that a thread may as well access each in memory, or so few of them that this is the shortest way?
  bool are_short_lines() const {
    if (!kColumns || args_.length == 0 || args_.length > kShort) return false;
    return args_.length <= 2 || kIsDear<Op> || (!kExtreme<Op> && bytes() <= kNearBytes) ||
           args_.outer * args_.inner <= sms_ * int64_t(kShortThreads);
  }

  // Do short lines lie one after the other, or a few of them side by side, so that neighbours fill the same vectors? Of
  // long ones not those that rows() copies in vectors; side by side neither those that a thread scans in memory as fast,
  // nor those that fill a sector of 32 bytes there.
  bool are_short_rows() const {
    const int64_t length = args_.length, inner = args_.inner;
    const Strides strides{args_.outer_stride, args_.length_stride, args_.inner_stride};
    constexpr bool kTakesRuns = !kIsDear<Op> || sizeof(Value) == 4;
    if (length == 0 || are_short_lines() || !lie_together(strides, args_.outer, length, inner)) return false;
    if (inner == 1) {
      if (length <= kMostShort) return true;
      return kTakesRuns && length <= kMostOddRow && length * sizeof(T) % 16 != 0 && bytes() <= kOddBytes;
    }
    constexpr int kThreadLength = kIsDear<Op> ? kMostDearShort : kExtreme<Op> ? kShort / 2 : kShort;
    if (!kTakesRuns || length <= kThreadLength || length > kMostShort << kLogShortRuns) return false;
    return length <= kMostShort ? inner * sizeof(T) < 32 : inner <= kMostNeighbours;
  }

  // Are lines neighbours, and so many that a thread may go along each one? Of what is dear fewer keep a multiprocessor
  // busy.
  bool has_many_neighbours() const {
    return args_.inner_stride == 1 && args_.inner >= 32 && args_.length > 0 && args_.length <= kMostLongColumn<Op> &&
           args_.outer * args_.inner >= sms_ * int64_t(kIsDear<Op> ? 768 : 1024);
  }

  // A tile of as many threads as still leave every multiprocessor some of them; several lines per block where they are
  // short.
  void rows() {
    const int64_t count = args_.outer, results = args_.results;
    int log_block = log2_of(kRowThreads), log_run = log2_of(kRowRun);
    while (!fits(kRowBytes<S> << log_block, kIndexBytes<S> << log_block)) log_block--;
    const auto tiles_of = [&](int log_tile) { return ceil_div(results, int64_t(1) << log_tile); };
    const auto tiles = [&] { return tiles_of(log_block + log_run); };
    const auto blocks = [&] {
      return tiles() > 1 ? count * tiles() : ceil_div(count * tiles_of(log_run), int64_t(1) << log_block);
    };
    const auto halves_are_as_deep = [&] { return is_as_deep<kRowRadix>(tiles_of(log_block + log_run - 1), tiles()); };
    // Runs as short as a line, or so short that all multiprocessors are at work.
    if constexpr (kIsDear<Op>)
      while (log_run > kLogE<S> && (results <= int64_t(1) << (log_run - 1) ||
                                    (count * tiles_of(log_run - 1) <= sms_ * kThreadsAtWork && halves_are_as_deep())))
        log_run--;
    // As many threads as a short line takes, or the most.
    if (log_block == log2_of(kRowThreads) && results <= int64_t(kRowThreads / 2) << log_run) log_block--;
    while (log_block > 6 && blocks() < sms_ && halves_are_as_deep()) log_block--;
    int log_threads = log_block;
    if (tiles() == 1)
      while (log_threads > 0 && results <= int64_t(1) << (log_threads - 1 + log_run)) log_threads--;
    const int64_t groups = tiles() > 1 ? count : ceil_div(count, int64_t(1) << (log_block - log_threads));
    auto kernel = &scan_rows<S, kDirection, false>;
    if constexpr (kTwoWays<Op>)
      if (args_.reverse) kernel = &scan_rows<S, Direction::backward, false>;
    if (args_.before != nullptr || args_.totals != nullptr || args_.front != 0)
      kernel = &scan_rows<S, kDirection, true>;
    start(kernel, kRowBlocks<Op> * kRowThreads, groups * tiles(), 1u << log_block, kRowBytes<S> << log_block,
          kIndexBytes<S> << log_block, carry<kRowRadix>(tiles(), groups), count,
          kIsDear<Op> ? log_threads | log_run << 8 : log_threads);
  }

  template <class Kernel>
  void column_threads(Kernel kernel) {
    launch_thread_per_line(kernel, args_.outer, context_, source_, lines_);
  }

  void columns() {
    const int64_t size = sizeof(T), inner = args_.inner, count = args_.outer * inner;
    const bool together = args_.inner_stride == 1 || inner == 1;
    ColumnConfig config{};
    while (config.log_lines < 5 && int64_t(1) << config.log_lines < count) config.log_lines++;
    config.lines = 1 << config.log_lines;
    const bool in_vectors = together && inner * size % 16 == 0 && is_aligned(args_.input) &&
                            lines_.length_bytes % 16 == 0 && lines_.outer_bytes % 16 == 0;
    const bool is_near =
        count <= INT32_MAX && are_near(lines_.length_bytes) && are_near(inner * int64_t(sizeof(Result)));
    if (kNarrow && in_vectors && is_near && inner % 32 == 16 && (inner == 16 || args_.outer > 1)) {
      config.kind = ColumnConfig::rows, config.log_lines = 4, config.lines = 16;
    } else if (!kWidens<S> && together && args_.length_stride == inner && inner < 32) {
      config.kind = ColumnConfig::packed, config.log_lines = log2_of(2 * int(inner) - 1), config.lines = int(inner);
    } else if (in_vectors && config.lines == 32 && (inner % 32 == 0 || args_.outer == 1)) {
      config.kind = ColumnConfig::rows;
    }
    const bool is_long = kLengthens<S> && args_.length >= kLongColumn && count * args_.length >= kManyElements * sms_;
    const int64_t run = is_long ? kLongRun : kRun<Op>, of_warp = run * config.runs();
    config.row_bytes = config.lines * int(size);
    config.run_bytes = bytes_of_run(int(run), config.lines, int(size));
    config.outer_bytes = lines_.outer_bytes;
    const int64_t strip_count = config.kind == ColumnConfig::packed ? args_.outer : ceil_div(count, config.lines);
    config.log_block = kLogColumnWarps;
    while (!fits(config.tile_bytes())) config.log_block--;
    const auto log_warps_of = [&](int log_block) {
      int log_warps = 0;
      while (log_warps < log_block && of_warp << log_warps < args_.results) log_warps++;
      return log_warps;
    };
    const auto tiles_of = [&](int log_block) { return ceil_div(args_.results, of_warp << log_warps_of(log_block)); };
    const auto groups_of = [&](int log_block) {
      return ceil_div(strip_count, int64_t(1) << (log_block - log_warps_of(log_block)));
    };
    int& log_block = config.log_block;
    while (log_block > 0 && groups_of(log_block) * tiles_of(log_block) < sms_ &&
           is_as_deep<kLaneRadix>(tiles_of(log_block - 1), tiles_of(log_block)))
      log_block--;
    config.log_warps = log_warps_of(log_block);
    const int64_t groups = groups_of(log_block), tiles = tiles_of(log_block);
    // Where a block has one strip, and no tile follows, the warps behind the end of its lines are left out.
    int64_t warps = int64_t(1) << log_block;
    if (tiles == 1 && config.log_warps == log_block) warps = max(ceil_div(args_.results, of_warp), int64_t(1));
    config.groups = FastDiv(groups);
    config.inner = FastDiv(inner);
    auto kernel = &scan_columns<S, kRun<Op>, 0>;
    if constexpr (kLengthens<S>)
      if (is_long) kernel = &scan_columns<S, kLongRun, 0>;
    int resident = kColumnBlocks<Op, 0>;
    const auto take = [&]<int Width>(std::integral_constant<int, Width>) {
      kernel = &scan_columns<S, kWideRun, Width>, resident = kColumnBlocks<Op, Width>;
    };
    if (config.kind == ColumnConfig::rows && is_near && run == kWideRun) {
      if constexpr (kWide)
        if (config.lines == 32) take(std::integral_constant<int, 32>());
      if constexpr (kNarrow)
        if (config.lines == 16) take(std::integral_constant<int, 16>());
    }
    start(kernel, resident * kColumnThreads, groups * tiles, unsigned(32 * warps),
          int(warps) * config.runs() * config.run_bytes, 0, carry<kLaneRadix>(tiles, count), config, count);
  }

  // Smaller tiles keep more multiprocessors busy, but a level more of totals takes longer than a larger tile.
  template <int Radix>
  static bool is_as_deep(int64_t more_tiles, int64_t tiles) {
    return Carry<Radix>::levels_of(more_tiles) == Carry<Radix>::levels_of(tiles);
  }

  // Do the offsets of a run's rows from the first one fit in 32 bits, where that counts?
  static bool are_near(int64_t row_bytes) { return row_bytes <= INT32_MAX / kWideRun; }

  // Do the buffers of tiles of tile_bytes, and the bytes beside them, fit? Shared memory also holds the totals of warps
  // and the like.
  static constexpr int kStaticBytes = sizeof(Value) * 2048;
  bool fits(int64_t tile_bytes, int64_t bytes = 0) const {
    return bytes + kBuffers * tile_bytes + kStaticBytes <= shared_;
  }

  // One block per tile, or, where more tiles are carried than blocks are resident, with resident_threads on each
  // multiprocessor, these take tile after tile.
  template <class Kernel, int Radix, class... Rest>
  void start(Kernel kernel, int resident_threads, int64_t work, unsigned threads, int tile_bytes, int bytes,
             const Carry<Radix>& carry, const Rest&... rest) {
    if (work > INT32_MAX) fail("more than 2^31 - 1 tiles in one launch");
    int64_t blocks = work, buffers = 1;
    if (carry.tiles > 1 && kTakesSeveral<S>) {
      const int by_threads = resident_threads / int(threads),
                by_memory = shared_ / (bytes + kBuffers * tile_bytes + 2048);
      const int64_t resident = int64_t(sms_) * (by_memory < 1 ? 1 : by_memory < by_threads ? by_memory : by_threads);
      if (blocks > resident) blocks = resident, buffers = kBuffers;
    }
    launch(kernel, blocks, threads, bytes + buffers * tile_bytes, context_.stream, source_, lines_, rest...,
           unsigned(work), carry);
  }

  template <int Radix>
  Carry<Radix> carry(int64_t tiles, int64_t lines) {
    Carry<Radix> carry{};
    const int64_t totals = carry.set(tiles, lines);
    if (tiles > 1) carry.tile_state = context_.tile_state(totals * lines * kTaggedWords<Value>);
    return carry;
  }

  const ScanArgs& args_;
  Context& context_;
  const int sms_, shared_;
  S source_;
  Lines lines_;
};

}  // namespace torch_reductions::cuda::scan
