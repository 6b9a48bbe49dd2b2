// Which ordered kernel runs, and its configuration. None of this changes a bit of the result.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>

#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "few_columns.cuh"
#include "few_rows.cuh"
#include "long_rows.cuh"
#include "shifted_columns.cuh"
#include "short_rows.cuh"

namespace torch_reductions::cuda::reduce {

template <class T, class Op>
class Plan {
  using S = Input<T, Op>;
  using Value = typename Op::Value;
  // Small types: more warps, to hide their arithmetic; large values: more, because each has many registers.
  using ByWarps = Input<T, Op, sizeof(T) < 4 || sizeof(Value) == 16 ? 4 : 8>;

  // Only what pays is instantiated; columns() serves every other case.
  static constexpr bool kLongIndex = std::is_same_v<Op, ArgMaxLongOf<T>>;  // more than 2^32 elements
  static constexpr bool kShifted = std::is_same_v<T, float> && std::is_same_v<Op, SumOf<T>>;
  static constexpr int kVector = sizeof(T) < 4 ? 4 / sizeof(T) : 1;  // results per lane in the ring: a word or more
  static constexpr bool kWords = kVector == 2 && !kArg<S>;           // a word at a time without the ring too

 public:
  Plan(const ReduceArgs& args, Context& context)
      : args_(args), context_(context), sms_(multiprocessors(context.device)), results_(args.outer * args.inner) {
    const bool flipped = args.function == Function::amin || args.function == Function::argmin;
    source_ = {flipped ? kFlip<Native<T>> : 0, args.input_dtype == Dtype::int8 ? 128 : 0};
    out_ = {args.output, args.output_dtype, flipped, args.function == Function::mean ? args.length : 0};
  }

  void run() {
    if constexpr (!kLongIndex) {
      if (args_.length_stride == 1 || args_.length == 1) {
        if (rows_of_memory()) return;
      } else if (args_.inner_stride == 1 && args_.inner > 1) {
        if (columns_of_memory()) return;
      }
    }
    if constexpr (kWords)
      if (reads_words()) return columns<kVector>();
    columns<1>();
  }

 private:
  // The length is contiguous.
  bool rows_of_memory() {
    const int64_t rows = results_, length = args_.length;
    const bool packed = (args_.inner == 1 || args_.inner_stride == length) &&
                        (args_.outer == 1 || args_.outer_stride == length * args_.inner);
    const bool in_vectors =
        length > 1 && (length & (length - 1)) == 0 && length <= S::E && rows % (S::E / length) == 0 && aligned(0);
    if (packed && in_vectors && rows > 1) vector_rows();
    else if (packed && rows > 1 && length <= kThreadRow && (length * sizeof(T) <= 512 || rows < sms_))
      short_rows<false>();
    else if (packed && rows >= sms_ && length <= kLanesRow) short_rows<true>();
    else if (length <= 32 && rows > sms_) return false;
    else if (length <= 1 << kLogUnit<ByWarps> && (rows >= sms_ * 8 || length < 1 << kLogUnit<S>)) warp_rows();
    else if (whole_tiles()) return true;
    else if (length <= 32 << kLogUnit<ByWarps> && rows >= sms_ * 8) warp_rows();
    else split_rows<ByWarps, false>(quickest_rows<ByWarps, false>());
    return true;
  }

  // Of rows that lie in whole aligned tiles.
  bool whole_tiles() {
    if constexpr (!IsIndexed<Value>::value) {
      if (!aligned(args_.outer_stride) || (args_.inner > 1 && !aligned(args_.inner_stride))) return false;
      const RowConfig config = quickest_rows<S, true>();
      if (config.log_tile() == 0) return false;
      split_rows<S, true>(config);
      return true;
    }
    return false;
  }

  // Are rows whole words, of which as many blocks can be made as of single columns, or of so much each that it makes no
  // difference?
  bool reads_words() const {
    return args_.inner_stride == 1 && args_.inner % kVector == 0 && rows_aligned(4) &&
           (ceil_div(results_ / kVector, 32) >= busy() || ceil_div(results_, 32) < busy() ||
            results_ * args_.length * int64_t(sizeof(T)) >= busy() * (512 << 10));
  }
  int64_t busy() const { return max(1, sms_ * 9 / 10); }  // blocks that keep the device at work

  // Neighbouring results are contiguous.
  bool columns_of_memory() {
    const int64_t inner = args_.inner, length = args_.length, row_bytes = inner * int64_t(sizeof(T));
    if (args_.length_stride == inner && row_bytes <= kFewBytes && length * row_bytes >= 1024 &&
        (args_.outer == 1 || results_ < kFewResults * (int64_t(sizeof(T)) << kArg<S>))) {
      few_columns();
      return true;
    }
    const bool packed = inner % kFewRowsVector<S> == 0 && rows_aligned(kFewRowsVector<S> * int(sizeof(T)));
    if (length < 1 << kLogFewRows && results_ >= sms_ * 512) {
      if (packed) few_rows<true, false>();
      else few_rows<false, false>();
      return true;
    }
    if (length < 1 << kLogMoreRows && results_ >= sms_ * (packed ? 1024 : 4096)) {
      if (packed) few_rows<true, true>();
      else few_rows<false, true>();
      return true;
    }
    if constexpr (sizeof(T) < 4)
      if (rows_aligned() && row_bytes % 16 == 0 && (args_.outer == 1 || inner % (32 * kVector) == 0) &&
          results_ / kVector >= 32 && length >= 256 && ring_columns())
        return true;
    if constexpr (kShifted)
      if (inner >= 256 && inner % 32 != 0 && length >= 256 && results_ >= 1024 * sms_) {
        shifted_columns();
        return true;
      }
    return false;
  }

  // Do a step of `stride` elements and the input's own address keep vectors aligned?
  bool aligned(int64_t stride, int bytes = 16) const {
    return reinterpret_cast<uintptr_t>(args_.input) % bytes == 0 && stride * int64_t(sizeof(T)) % bytes == 0;
  }
  // Do all rows of neighbouring results begin so?
  bool rows_aligned(int bytes = 16) const {
    return aligned(args_.length_stride, bytes) && (args_.outer == 1 || aligned(args_.outer_stride, bytes));
  }
  int64_t tiles(int log_tile) const { return (args_.length - 1 >> log_tile) + 1; }

  void vector_rows() {
    const int64_t vectors = results_ * args_.length / S::E;
    launch(&reduce::vector_rows<S>, ceil_div(vectors, kShortThreads * 2), kShortThreads, 0, context_.stream, source_,
           data(), out_, vectors, log2_of(int(args_.length)));
  }

  template <bool Lanes>
  void short_rows() {
    const int64_t row_bytes = args_.length * int64_t(sizeof(T));
    // As many as the stage holds: one that is not full keeps less in flight.
    int64_t per_block = (kStageBytes<Lanes> - (aligned(args_.length) ? 0 : 16)) / row_bytes;
    per_block = max(int64_t(1), min(per_block, ceil_div(results_, sms_)));
    const int padding = Lanes ? kPadding<sizeof(T)> : padding_of_rows<sizeof(T)>(int(row_bytes));
    const size_t bytes = padded<sizeof(T)>(int(per_block * row_bytes) + 16, padding) + 16;
    launch(&reduce::short_rows<S, Lanes>, ceil_div(results_, per_block), kShortThreads, bytes, context_.stream, source_,
           data(), out_, results_, int(args_.length), int(per_block), padding);
  }

  // Groups of V neighbouring lines as one.
  Lines lines(int V = 1) const {
    const int64_t size = sizeof(T), inner_bytes = args_.inner_stride * size * V,
                  length_bytes = args_.length_stride * size;
    if (args_.outer == 1) return {data(), 1, inner_bytes, 0, length_bytes};
    return {data(), args_.inner / V, args_.outer_stride * size, inner_bytes, length_bytes};
  }

  void warp_rows() {
    launch(&reduce::warp_rows<ByWarps>, ceil_div(results_, kRowThreads / 32), kRowThreads, 0, context_.stream,
           ByWarps{source_.flip, source_.sign}, lines(), out_, results_, int(args_.length));
  }

  // The tiles of all lines, and their state.
  Split split(int log_tile) {
    Split split{args_.length, log_tile, unsigned(results_), unsigned(tiles(log_tile)), {}};
    if (results_ > UINT32_MAX) fail("more than 2^32 results");
    if (split.tiles > 1) split.tile_state = context_.tile_state(results_ * split.words_of_line() * kTaggedWords<Value>);
    return split;
  }

  // A block of 2^log_warps warps folds a tile of a row, each warp 2^log_span elements of it.
  struct RowConfig {
    int log_warps, log_span;
    int log_tile() const { return log_warps + log_span; }
  };

  // The busiest multiprocessor folds its blocks in waves, as many at a time as it has room for; wave(blocks): the time
  // of one.
  template <class Wave>
  double in_waves(int64_t blocks, int64_t room, Wave wave) const {
    const int64_t busiest = ceil_div(blocks, sms_), last = busiest % room;
    return busiest / room * wave(room) + (last > 0 ? wave(last) : 0);
  }

  // About how many microseconds an H200 takes: warps load a unit each and wait for it, unit after unit.
  template <class Source, bool Whole>
  double time_of(const RowConfig& config) const {
    constexpr double kEnds = 1.6, kLatency = 1.27, kRate = 64800;  // of a block; of a load; bytes
    constexpr double kLevel = 0.2, kReader = 0.02;  // of a level of totals; of a row whose totals are folded
    const int64_t tiles = this->tiles(config.log_tile());
    const int64_t units =
        min(int64_t(1) << (config.log_span - kLogUnit<Source>), this->tiles(config.log_warps + kLogUnit<Source>));
    const double join =
        tiles == 1 ? 0 : kLevel * std::bit_width(uint64_t(tiles - 1)) + kReader * ceil_div(results_, sms_);
    const int room = kRowBlocks<Source, Whole> << (kLogRowWarps - config.log_warps);
    return join + in_waves(results_ * tiles, room, [&](int64_t blocks) {
             return kEnds + units * std::max(kLatency, (blocks << config.log_warps) * kUnitBytes<Source> / kRate);
           });
  }

  // Whole tiles: of those that divide the rows with the most warps; none if no tile does.
  template <class Source, bool Whole>
  RowConfig quickest_rows() const {
    RowConfig best{};
    double least = INFINITY;
    for (int log_warps = kLogRowWarps; log_warps >= (Whole ? 0 : 1) && !(Whole && least < INFINITY); log_warps--)
      for (int log_units = 0; log_units <= kLogMaxUnits; log_units++) {
        const RowConfig config{log_warps, kLogUnit<Source> + log_units};
        if (Whole && args_.length % (int64_t(1) << config.log_tile()) != 0) break;
        const double time = time_of<Source, Whole>(config);
        if (time < least) least = time, best = config;
      }
    return best;
  }

  template <class Source, bool Whole>
  void split_rows(const RowConfig& config) {
    const Split split = this->split(config.log_tile());
    const unsigned threads = 32u << config.log_warps;
    launch(&reduce::split_rows<Source, Whole>, results_ * split.tiles + split.readers(threads), threads, 0,
           context_.stream, Source{source_.flip, source_.sign}, lines(), out_, config.log_span, split);
  }

  // One block per tile of 2^k rows of all columns: about 64 KB where there is enough for every multiprocessor, in steps
  // of as many runs as the threads can take.
  void few_columns() {
    const int64_t size = sizeof(T), inner = args_.inner;
    FewColumnsConfig config{int(inner), 0, 0};
    const auto log_step = [&] { return log2_of(rows_at_once(sizeof(T))) + config.log_height; };
    while (inner << (config.log_height + 1) <= kFewThreads && int64_t(1) << log_step() < args_.length)
      config.log_height++;
    while (config.log_steps < kLogMaxSteps && int64_t(1) << (log_step() + config.log_steps) < args_.length &&
           args_.outer * tiles(log_step() + config.log_steps + 1) >= sms_ * 8)
      config.log_steps++;
    const int log_tile = log_step() + config.log_steps;
    const Split split = this->split(log_tile);
    const unsigned threads = unsigned(ceil_div(inner << config.log_height, 32) * 32);
    const size_t staged = config.stage_bytes(size) + (inner << config.log_height) * sizeof(Value),
                 ragged = inner * ((1 << config.log_height) + log_tile + 1) * sizeof(Value);
    launch(&reduce::few_columns<S>, args_.outer * split.tiles + split.readers(threads), threads, max(staged, ragged),
           context_.stream, source_, data(), args_.outer_stride * size, out_, config, split);
  }

  template <bool Packed, bool More>
  void few_rows() {
    constexpr int V = FewRows<S, Packed>::V, Load = Packed ? V : 1;
    launch(&reduce::few_rows<S, Packed, More>, ceil_div(results_, int64_t(kFewRowsThreads) * V), kFewRowsThreads, 0,
           context_.stream, source_, lines(Load), results_ / Load, out_, int(args_.length),
           reinterpret_cast<uintptr_t>(args_.output) % 16 == 0);
  }

  // A block of `width` groups of V columns, as high as its threads allow and the length feeds, of the longest runs.
  template <int V, bool Staged>
  ColumnConfig column_config(int64_t width) const {
    ColumnConfig config{int(width), 0, kLogMaxRun<S, V>, unsigned(ceil_div(results_ / V, width))};
    while (width << (config.log_height + 1) <= kColumnThreads<S, V, Staged> &&
           int64_t(1) << (kLogBatch<S, V, Staged> + config.log_height) < args_.length)
      config.log_height++;
    return config;
  }

  int64_t column_tiles(const ColumnConfig& config) const { return config.blocks_across * tiles(config.log_tile()); }

  // About how many microseconds an H200 takes: threads load a batch and fold it, one after the other.
  template <int V>
  double time_of(const ColumnConfig& config) const {
    constexpr double kEnds = 2.7, kLatency = 0.87, kRate = 16450, kJoin = 6;  // kRate: elements
    constexpr int kBatch = kLogBatch<S, V, false>, kResident = kColumnThreads<S, V, false> * kColumnBlocks<S, V, false>;
    const int threads = config.width << config.log_height, room = max(1, kResident / threads);
    const int64_t batches = (min(args_.length, int64_t(1) << config.log_run) - 1 >> kBatch) + 1;
    return kJoin * (tiles(config.log_tile()) > 1) + in_waves(column_tiles(config), room, [&](int64_t blocks) {
             return kEnds + batches * std::max(kLatency, (blocks * threads * V << kBatch) / kRate);
           });
  }

  // Of blocks of 32 or 64 groups, or of all, if they are fewer: all heights of 128 threads and more, all runs.
  template <int V>
  ColumnConfig quickest_columns() const {
    ColumnConfig best{};
    double least = INFINITY;
    const int64_t groups = results_ / V;
    for (int64_t width = groups < 64 ? groups : 32; width <= min(groups, int64_t(64)); width *= 2) {
      ColumnConfig config = column_config<V, false>(width);
      do {
        for (config.log_run = kLogMaxRun<S, V>; config.log_run >= kLogBatch<S, V, false>; config.log_run--) {
          if (config.log_run > kLogBatch<S, V, false> && tiles(config.log_tile() - 1) == 1) continue;  // the same
          const double time = time_of<V>(config);
          if (time < least) least = time, best = config;
        }
      } while (config.log_height-- > 0 && config.width << config.log_height >= 128);
    }
    return best;
  }

  // Any layout: 32 groups of V results or more side by side.
  template <int V>
  void columns() {
    constexpr int kBytes = V * sizeof(T);
    const int64_t groups = results_ / V, busy = this->busy();
    if (groups < 64 * busy) return launch_columns<V, false>(quickest_columns<V>());
    // The widest block, from 128 down to 32 groups, that gives every multiprocessor as many as it has room for.
    const int64_t fill_all = busy * (1024 / kColumnThreads<S, V, false>);
    int64_t width = 128;
    while (width >= 64 && ceil_div(groups, width) < fill_all) width /= 2;
    // Or half of it, where the last blocks would have most multiprocessors wait for them.
    const auto rounds = [&](int64_t width) { return ceil_div(ceil_div(groups, width), int64_t(sms_)); };
    if (width >= 64 && rounds(width / 2) < 1.6 * rounds(width)) width /= 2;
    ColumnConfig config = column_config<V, false>(width);
    if (config.log_height == 0) config = column_config<V, false>(min(groups, int64_t(256)));
    // Where there are threads enough, one takes a column: none waits for a shorter run, or merges. But long columns are
    // read up to a tenth faster by a few threads each.
    if (groups >= sms_ * 1024 && (kArg<S> || args_.length <= int64_t(1) << kLogMaxRun<S, V>)) {
      config = {128, 0, kLogMaxRun<S, V>, unsigned(ceil_div(groups, 128))};
      while (config.log_height < 3 && 256 << config.log_height <= kColumnThreads<S, V, false> &&
             int64_t(256) << 2 * config.log_height <= args_.length)
        config.log_height++;
      return launch_columns<V, false>(config);
    }
    // Blocks so small that all of them run at once, as far as threads still read enough: while one merges its runs
    // others read, and none waits for a few. Where they are too many for that, long ones stay as they are.
    const bool is_short = width * args_.length * kBytes <= 512 << 10;
    const int least = args_.length <= 64 ? 128 : is_short || kBytes >= 4 ? 256 : 512;
    constexpr int kResident = kColumnThreads<S, V, false> * kColumnBlocks<S, V, false>;
    const auto threads = [&] { return int64_t(config.width) << config.log_height; };
    const auto run_at_once = [&](int64_t threads) {
      return config.blocks_across * threads <= int64_t(kResident) * sms_;
    };
    if (is_short || run_at_once(least))
      while (config.log_height > 0 && threads() > least && !run_at_once(threads())) config.log_height--;
    // The longest runs whose tiles still fill the multiprocessors.
    while (config.log_run > kLogBatch<S, V, false> && column_tiles(config) < fill_all) config.log_run--;
    launch_columns<V, false>(config);
  }

  // Aligned columns of small types through a ring, unless others are faster. About how many microseconds an H200 takes:
  // a multiprocessor has room for one block with a ring, and alone it reads more bytes than its share of the memory.
  bool ring_columns() {
    constexpr double kLaunch = 3.4, kEnds = 1.7, kJoin = 4.6, kOtherLaunch = 7.2;
    constexpr double kAlone = 62800, kAll = 4.37e6,
                     kOthers = 4.03e6 * (kArg<S> ? 0.89 : 1) * (sizeof(T) == 1 ? 0.76 : 1);
    constexpr int kRowBytes = 32 * kVector * sizeof(T);
    double least = kOtherLaunch + double(results_) * args_.length * sizeof(T) / kOthers;
    ColumnConfig config = column_config<kVector, true>(32), best{};
    for (; config.log_run >= kLogBatch<S, kVector, true>; config.log_run--) {
      const int64_t tiles = this->tiles(config.log_tile()), blocks = config.blocks_across * tiles;
      const int64_t rows = min(args_.length, int64_t(1) << config.log_tile());
      const double rate = std::min(kAlone, kAll / min(blocks, int64_t(sms_)));
      const double time =
          kLaunch + ceil_div(blocks, int64_t(sms_)) * (rows * kRowBytes / rate + kEnds) + kJoin * (tiles > 1);
      if (time < least) least = time, best = config;
    }
    if (best.width == 0) return false;
    launch_columns<kVector, true>(best);
    return true;
  }

  template <int V, bool Staged>
  void launch_columns(ColumnConfig config) {
    while (config.log_run > 0 && int64_t(1) << (config.log_tile() - 1) >= args_.length) config.log_run--;
    size_t bytes = config.values() * V * sizeof(Value);
    if (Staged) bytes = max(bytes, size_t(kStages * kStageBytesOfWarp) << config.log_height);
    const Split split = this->split(config.log_tile());
    const unsigned threads = unsigned(ceil_div(config.width << config.log_height, 32) * 32);
    launch(&reduce::columns<S, V, Staged>, int64_t(config.blocks_across) * split.tiles + split.readers(threads),
           threads, bytes, context_.stream, source_, lines(V), results_ / V, out_, config, split);
  }

  // Many columns: blocks of 128, the length is not split.
  void shifted_columns() {
    using Source = Shifted<T, Op>;
    const int64_t tiles_of_row = ceil_div(args_.inner, 128), size = sizeof(T);
    ColumnConfig config{32, 0, kLogBatch<Source, 4, false>, unsigned(tiles_of_row)};
    while (config.log_height < 3 && int64_t(8) << config.log_height < args_.length) config.log_height++;
    while (int64_t(1) << config.log_tile() < args_.length) config.log_run++;
    if (config.log_run > kLogMaxRun<Source, 4>) return columns<1>();
    launch(&reduce::shifted_columns<T, Op>, args_.outer * tiles_of_row, unsigned(32 << config.log_height),
           config.values() * 4 * sizeof(Value), context_.stream, source_, data(), out_, args_.outer_stride * size,
           args_.length_stride * size, args_.length, args_.inner, config);
  }

  const char* data() const { return static_cast<const char*>(args_.input); }

  const ReduceArgs& args_;
  Context& context_;
  const int sms_;
  const int64_t results_;
  S source_;
  Output out_;
};

}  // namespace torch_reductions::cuda::reduce
