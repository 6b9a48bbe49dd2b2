// Which ordered kernel runs, and how it is cut. None of this changes a bit of the result.
#pragma once
#include <algorithm>

#include "../../primitives/launch.h"
#include "long_rows.cuh"
#include "shifted_columns.cuh"
#include "short_rows.cuh"

namespace torch_reductions::cuda {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T, class Op>
class Plan {
  using S = Input<T, Op>;
  using ByWarps = Input<T, Op, sizeof(T) < 4 ? 4 : 8>;  // small types: more warps, to hide their arithmetic
  using Value = typename Op::Value;

  // Only what pays is instantiated; columns<1> serves every other case.
  static constexpr bool kLongIndex = std::is_same_v<Op, ArgMaxLongOf<T>>;  // more than 2^32 elements
  static constexpr bool kSum = std::is_same_v<Op, SumOf<T>>;
  // Two columns: sums, and all of float32.
  static constexpr bool kPairs = std::is_same_v<T, float> || (kSum && sizeof(T) >= 2 && !std::is_same_v<T, int16_t>);
  static constexpr bool kShifted = std::is_same_v<T, float> && kSum;  // many columns, rows not aligned
  static constexpr int kVector =
      sizeof(T) < 4 && (kSum || std::is_same_v<Op, MaxOf<T>>) ? 4 / sizeof(T) : 1;  // small types, a word a lane

 public:
  Plan(const ReduceArgs& args, Context& context)
      : args_(args), context_(context), sms_(multiprocessors(context.device)) {
    const bool flipped = args.function == Function::amin || args.function == Function::argmin;
    source_ = {flipped, args.input_dtype == Dtype::int8 ? 128 : 0};
    out_ = {args.output, args.output_dtype, flipped, args.function == Function::mean ? args.length : 0};
  }

  void run() {
    const bool contiguous = args_.length_stride == 1 || args_.length == 1;
    const int64_t rows = args_.outer * args_.inner;
    if constexpr (!kLongIndex) {
      if (contiguous) {
        const bool packed = (args_.inner == 1 || args_.inner_stride == args_.length) &&
                            (args_.outer == 1 || args_.outer_stride == args_.length * args_.inner);
        const bool in_vectors = args_.length > 1 && (args_.length & (args_.length - 1)) == 0 && args_.length <= S::E &&
                                rows % (S::E / args_.length) == 0 && reinterpret_cast<uintptr_t>(args_.input) % 16 == 0;
        if (packed && in_vectors && rows > 1) return vector_rows(rows);
        if (packed && rows > 1 && args_.length <= kThreadRow && (args_.length * sizeof(T) <= 512 || rows < sms_))
          return short_rows<false>(rows);
        if (packed && rows >= sms_ && args_.length <= kLanesRow) return short_rows<true>(rows);
        if (args_.length > 32 || rows <= sms_) {
          if (args_.length <= int64_t(32) << kLogUnit<ByWarps, 1> &&
              (rows >= sms_ * 8 || args_.length < 1 << kLogUnit<S, 1>))
            return warp_rows(rows);
          return split_rows<1>(rows, args_.length);
        }
      }
      if constexpr (kPairs)
        if (args_.inner == 2 && args_.inner_stride == 1 && args_.length_stride == 2 && args_.length >= 1024)
          return split_rows<2>(args_.outer, args_.length);
      if constexpr (kShifted)
        if (args_.inner_stride == 1 && args_.inner >= 256 && args_.inner % 32 != 0 && args_.length >= 256 &&
            rows >= 128 * sms_)
          return shifted_columns();
      if constexpr (kVector > 1) {
        const bool vectors = args_.inner_stride == 1 && args_.inner % kVector == 0 &&
                             args_.length_stride % kVector == 0 &&
                             (args_.outer == 1 || args_.outer_stride % kVector == 0) &&
                             reinterpret_cast<uintptr_t>(args_.input) % (kVector * sizeof(T)) == 0;
        if (vectors && rows >= 64 * kVector) return columns<kVector>();
      }
    }
    columns<1>();
  }

 private:
  void vector_rows(int64_t rows) {
    const int64_t vectors = rows * args_.length / S::E;
    launch(&cuda::vector_rows<S>, ceil_div(vectors, kShortThreads * 2), kShortThreads, 0, context_.stream, source_,
           data(), out_, vectors, log2_of(int(args_.length)));
  }

  template <bool Lanes>
  void short_rows(int64_t rows) {
    const int64_t row_bytes = args_.length * int64_t(sizeof(T));
    const int64_t at_once = Lanes ? kShortThreads >> log_lanes(int(args_.length)) : 8;  // rows, best a multiple of it
    int64_t per_block = (kStageBytes<Lanes> - 16) / row_bytes;
    if (per_block >= at_once) per_block -= per_block % at_once;
    per_block = std::max<int64_t>(1, std::min(per_block, ceil_div(rows, sms_)));
    const size_t bytes = padded<sizeof(T)>(int(per_block * row_bytes) + 16) + 16;
    launch(&cuda::short_rows<S, Lanes>, ceil_div(rows, per_block), kShortThreads, bytes, context_.stream, source_,
           data(), out_, rows, int(args_.length), int(per_block));
  }

  Rows rows() const {
    return {data(), args_.inner, args_.outer_stride * int64_t(sizeof(T)), args_.inner_stride * int64_t(sizeof(T))};
  }

  void warp_rows(int64_t rows) {
    launch(&cuda::warp_rows<ByWarps>, ceil_div(rows, kRowThreads / 32), kRowThreads, 0, context_.stream,
           ByWarps{source_.flipped, source_.sign}, this->rows(), out_, rows, int(args_.length));
  }

  // Tiles of 8 to 32 units, one a warp at least: the largest that still gives every multiprocessor several.
  template <int C>
  void split_rows(int64_t rows, int64_t length) {
    constexpr int LogUnit = kLogUnit<S, C>;
    const auto tiles_of = [&](int log_tile) { return rows * ceil_div(length, int64_t(1) << log_tile); };
    int log_tile = LogUnit + (sizeof(T) < 4 ? 4 : 5);
    while (log_tile > LogUnit + 3 && tiles_of(log_tile) < sms_ * 16) log_tile--;
    // Many rows need no split; and the last block folds at most 2^kLogMaxUnits units of totals.
    while (log_tile < LogUnit + kLogMaxUnits &&
           ((rows >= sms_ * 8 && length > int64_t(1) << log_tile) ||
            length >> log_tile > int64_t(1) << (kLogMaxUnits + kLogUnit<Published<Op>, 1>)))
      log_tile++;
    const int warps = std::min(kRowThreads / 32, 1 << (log_tile - LogUnit));
    const int64_t tiles = ceil_div(length, int64_t(1) << log_tile);
    Split split{length, log_tile, unsigned(rows), unsigned(tiles), {}};
    if (tiles > 1) split.board = context_.board(rows * (tiles + log_tile) * C * kTaggedWords<Value>);
    Rows where = C == 1 ? this->rows() : Rows{data(), 1, args_.outer_stride * int64_t(sizeof(T)), 0};
    launch(&cuda::split_rows<S, C>, rows * tiles + (tiles > 1 ? rows : 0), unsigned(warps * 32), 0, context_.stream,
           source_, where, out_, split);
  }

  // As many runs as the length feeds, 32 results or more side by side, and no more chunks than it takes to keep every
  // multiprocessor busy.
  template <int V>
  void columns() {
    constexpr int LogR = kLogBatch<S, V>;
    const int64_t groups = args_.outer * args_.inner / V, length = args_.length;
    // The widest tile, of 128 to 32 columns, that still gives every multiprocessor one.
    int64_t width = std::min<int64_t>(groups, 128);
    while (width * V >= 64 && ceil_div(groups, width) < sms_ * 9 / 10) width = ceil_div(width, 2);
    for (;; width = ceil_div(width, 2)) {
      Cut cut{};
      while (width << (cut.log_height + 1) <= kColumnThreads<S, V> && int64_t(1) << (LogR + cut.log_height) < length)
        cut.log_height++;
      if (cut.log_height == 0) width = std::min<int64_t>(groups, 256);
      const int64_t tiles = ceil_div(groups, width);
      // The longest runs whose chunks still fill the multiprocessors once.
      const auto chunks = [&] { return ceil_div(length, int64_t(1) << (cut.log_run + cut.log_height)); };
      cut.log_run = kLogMaxRun<S, V>;
      while (cut.log_run > LogR && tiles * chunks() < sms_ * 9 / 10) cut.log_run--;
      while (cut.log_run > 0 && int64_t(1) << (cut.log_run + cut.log_height - 1) >= length) cut.log_run--;
      while (int64_t(1) << (cut.log_last_run + cut.log_height) < chunks()) cut.log_last_run++;
      // A narrower tile is a taller block, whose last one folds more chunks, and takes less shared memory.
      const bool too_many = cut.log_last_run > kLogMaxRun<Published<Op>, 1>;
      if (width > 1 && (too_many || shared_bytes(cut, int(width), V) > 48 * 1024)) continue;
      if (too_many) fail("a dimension of more than 2^38 elements");
      return launch_columns<V>(cut, int(width), tiles, chunks());
    }
  }

  // Many columns: a block of 128, no chunks.
  void shifted_columns() {
    using Source = Shifted<T, Op>;
    Cut cut{};
    cut.width = 32, cut.chunks = 1;
    while (cut.log_height < 3 && int64_t(8) << cut.log_height < args_.length) cut.log_height++;
    cut.log_run = kLogBatch<Source, 4>;
    while (int64_t(1) << (cut.log_run + cut.log_height) < args_.length) cut.log_run++;
    if (cut.log_run > kLogMaxRun<Source, 4>) return columns<1>();
    const int64_t tiles_of_row = ceil_div(args_.inner, 128), size = sizeof(T);
    cut.tiles = unsigned(args_.outer * tiles_of_row);
    const size_t bytes = size_t(128) * ((1 << cut.log_height) + cut.log_run + cut.log_height + 1) * sizeof(Value);
    launch(&cuda::shifted_columns<T, Op>, cut.tiles, unsigned(32 << cut.log_height), bytes, context_.stream, source_,
           data(), out_, args_.outer_stride * size, args_.length_stride * size, args_.length, args_.inner,
           unsigned(tiles_of_row), cut);
  }

  static size_t shared_bytes(const Cut& cut, int width, int vector) {
    const int levels = cut.log_run + cut.log_height + 1, last_levels = cut.log_last_run + cut.log_height + 1;
    return size_t(width) * (vector * ((1 << cut.log_height) + levels) + last_levels) * sizeof(Value);
  }

  template <int V>
  void launch_columns(Cut cut, int width, int64_t tiles, int64_t chunks) {
    const int64_t size = sizeof(T);
    cut.width = width, cut.tiles = unsigned(tiles), cut.chunks = unsigned(chunks);
    const int64_t pitch = int64_t(width) * V;
    if (chunks > 1) cut.board = context_.board(tiles * pitch * chunks * kTaggedWords<Value>);
    const size_t bytes = shared_bytes(cut, width, V);
    const unsigned threads = unsigned(ceil_div(width << cut.log_height, 32) * 32);
    const Columns where{data(),
                        args_.outer * args_.inner / V,
                        args_.inner / V,
                        args_.outer_stride * size,
                        args_.inner_stride * size * V,
                        args_.length_stride * size,
                        args_.length};
    launch(&cuda::columns<S, V>, tiles * chunks, threads, bytes, context_.stream, source_, where, out_, cut);
  }

  const char* data() const { return static_cast<const char*>(args_.input); }

  const ReduceArgs& args_;
  Context& context_;
  const int sms_;
  S source_;
  Output out_;
};

}  // namespace torch_reductions::cuda
