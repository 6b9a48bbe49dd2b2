// Which ordered kernel runs, and how it is cut. None of this changes a bit of the result.
#pragma once
#include <algorithm>

#include "../../primitives/launch.h"
#include "columns.cuh"
#include "rows.cuh"
#include "short_rows.cuh"

namespace torch_reductions::cuda {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t align16(int64_t bytes) { return (bytes + 15) & ~int64_t(15); }

inline constexpr int64_t kStreamBytes = 200 << 20;  // inputs up to here are read with the streaming policy

template <class T, class Op>
class Plan {
  using S = Input<T, Op>;
  using Value = typename Op::Value;

  // Only what pays is instantiated; columns<1> serves every other case.
  static constexpr bool kLongIndex = std::is_same_v<Op, ArgMaxLongOf<T>>;  // more than 2^32 elements
  static constexpr bool kPairs = std::is_same_v<Op, SumOf<T>>;             // two columns
  static constexpr int kVector = sizeof(T) < 4 && !IsIndexed<Value>::value ? 4 / sizeof(T) : 1;  // small types, a word a lane

 public:
  Plan(const ReduceArgs& args, Context& context)
      : args_(args), context_(context), sms_(multiprocessors(context.device)) {
    const bool flipped = args.function == Function::amin || args.function == Function::argmin;
    source_ = {flipped};
    out_ = {args.output, args.output_dtype, flipped, args.function == Function::mean ? args.length : 0};
    stream_ = args.outer * args.inner * args.length * int64_t(sizeof(T)) <= kStreamBytes;
  }

  void run() {
    const bool contiguous = args_.length_stride == 1 || args_.length == 1;
    const int64_t rows = args_.outer * args_.inner;
    if constexpr (!kLongIndex) {
      if (contiguous) {
        const bool packed = (args_.inner == 1 || args_.inner_stride == args_.length) &&
                            (args_.outer == 1 || args_.outer_stride == args_.length * args_.inner);
        if (packed && rows > 1 && args_.length <= kThreadRow) return short_rows<false>(rows);
        if (packed && rows >= sms_ && args_.length <= kWarpRow) return short_rows<true>(rows);
        if (args_.length > 32 || rows <= sms_) {
          if (args_.length <= int64_t(32) << kLogUnit<S, 1> && (rows >= sms_ * 8 || args_.length < 1 << kLogUnit<S, 1>))
            return warp_rows(rows);
          return split_rows<1>(rows, args_.length);
        }
      }
      if constexpr (kPairs)
        if (args_.inner == 2 && args_.inner_stride == 1 && args_.length_stride == 2 && args_.length >= 1024)
          return split_rows<2>(args_.outer, args_.length);
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
  template <bool WarpRow>
  void short_rows(int64_t rows) {
    const int64_t row_bytes = args_.length * int64_t(sizeof(T));
    int64_t per_block = (kStageBytes - 16) / row_bytes;
    if (per_block >= 16) per_block &= ~int64_t(7);
    per_block = std::max<int64_t>(1, std::min(per_block, ceil_div(rows, sms_)));
    const size_t bytes = padded<sizeof(T)>(int(per_block * row_bytes) + 16) + 16;
    launch(&cuda::short_rows<S, WarpRow>, unsigned(ceil_div(rows, per_block)), kShortThreads, bytes, context_.stream,
           source_, data(), out_, rows, int(args_.length), int(per_block), stream_);
  }

  Rows rows() const {
    return {data(), args_.inner, args_.outer_stride * int64_t(sizeof(T)), args_.inner_stride * int64_t(sizeof(T))};
  }

  void warp_rows(int64_t rows) {
    launch(&cuda::warp_rows<S>, unsigned(ceil_div(rows, kRowThreads / 32)), kRowThreads, 0, context_.stream, source_,
           this->rows(), out_, rows, int(args_.length), stream_);
  }

  // Tiles of 1 to 32 units, one a warp at least: the largest that still gives every multiprocessor several.
  template <int C>
  void split_rows(int64_t rows, int64_t length) {
    constexpr int LogUnit = kLogUnit<S, C>;
    const auto tiles_of = [&](int log_tile) { return rows * ceil_div(length, int64_t(1) << log_tile); };
    int log_tile = LogUnit + 5;
    while (log_tile > LogUnit + 3 && tiles_of(log_tile) < sms_ * 16) log_tile--;
    while (log_tile > LogUnit + 1 && tiles_of(log_tile) < sms_ / 4) log_tile--;  // small: more, smaller blocks
    // Many rows need no split; and the last block folds at most 2^kLogMaxUnits units of totals.
    while (log_tile < LogUnit + kLogMaxUnits &&
           ((rows >= sms_ * 8 && length > int64_t(1) << log_tile) ||
            length >> log_tile > int64_t(1) << (kLogMaxUnits + kLogUnit<Totals<Op>, C>)))
      log_tile++;
    const int warps = std::min(kRowThreads / 32, 1 << (log_tile - LogUnit));
    const int64_t tiles = ceil_div(length, int64_t(1) << log_tile);
    if (rows * tiles > INT32_MAX) throw std::runtime_error("torch_reductions: more than 2^31 tiles");
    Split<Value> split{length, log_tile, unsigned(tiles), 0, nullptr, nullptr, nullptr};
    if (tiles > 1) {
      split.stride = align16(tiles * C * int64_t(sizeof(Value))) / int64_t(sizeof(Value));
      split.totals = static_cast<Value*>(context_.workspace(size_t(rows * (split.stride + C * log_tile)) * sizeof(Value)));
      split.digits = split.totals + rows * split.stride;
      split.tickets = context_.tickets(rows);
    }
    Rows where = C == 1 ? this->rows() : Rows{data(), 1, args_.outer_stride * int64_t(sizeof(T)), 0};
    launch(&cuda::split_rows<S, C>, unsigned(rows * tiles), unsigned(warps * 32), 0, context_.stream, source_, where,
           out_, split, stream_);
  }

  // Blocks of 256 to 512 threads: as many runs as the length feeds, 32 groups or more side by side, and no more chunks
  // than it takes to keep every multiprocessor busy.
  template <int V>
  void columns() {
    constexpr int LogR = kLogBatch<S, V>, kThreads = 512 / (sizeof(Value) * V > 16 ? 2 : 1);
    const int64_t groups = args_.outer * args_.inner / V, length = args_.length;
    const int64_t steps = ceil_div(length, 1 << LogR);
    Cut<Value> cut{};
    cut.width = int(std::min<int64_t>(groups, groups >= int64_t(32) * sms_ / 2 && groups < int64_t(128) * sms_ ? 32 : 128));
    if (length > 1 << 22) cut.width = std::min(cut.width, 32);  // taller blocks: the last one can fold more chunks
    while (cut.width << (cut.log_height + 1) <= kThreads && int64_t(1) << cut.log_height < steps) cut.log_height++;
    if (cut.log_height == 0) cut.width = int(std::min<int64_t>(groups, 256));
    const int64_t tiles = ceil_div(groups, cut.width);
    const auto chunks_of = [&](int log_run) { return ceil_div(length, int64_t(1) << (log_run + cut.log_height)); };
    cut.log_run = kLogMaxRun<S, V>;
    const int64_t enough = int64_t(sms_) * (args_.length * groups > (8 << 20) ? 8 : 2);
    while (cut.log_run > LogR && tiles * chunks_of(cut.log_run) < enough && tiles < sms_ * 9 / 10) cut.log_run--;
    while (cut.log_run > 0 && int64_t(1) << (cut.log_run + cut.log_height - 1) >= length) cut.log_run--;
    const int64_t chunks = chunks_of(cut.log_run);
    if (tiles * chunks > INT32_MAX) throw std::runtime_error("torch_reductions: more than 2^31 tiles");
    cut.chunks = unsigned(chunks);
    const int64_t pitch = int64_t(cut.width) * V;
    const int log_chunk = cut.log_run + cut.log_height;
    if (chunks > 1) {
      while (int64_t(1) << (cut.log_last_run + cut.log_height) < chunks) cut.log_last_run++;
      if (cut.log_last_run > kLogMaxRun<Totals<Op>, 1>) throw std::runtime_error("torch_reductions: dimension too long");
      cut.totals = static_cast<Value*>(context_.workspace(size_t(tiles * pitch * (chunks + log_chunk)) * sizeof(Value)));
      cut.digits = cut.totals + tiles * chunks * pitch;
      cut.tickets = context_.tickets(tiles);
    }
    const int levels = std::max(cut.log_run, cut.log_last_run) + cut.log_height + 1;
    const size_t bytes = size_t(pitch) * ((1 << cut.log_height) + levels) * sizeof(Value);
    const unsigned threads = unsigned(ceil_div(cut.width << cut.log_height, 32) * 32);
    const int64_t size = sizeof(T);
    const Columns where{data(), groups, args_.inner / V, args_.outer_stride * size, args_.inner_stride * size * V,
                        args_.length_stride * size, length};
    allow_shared(&cuda::columns<S, V>, bytes);
    launch(&cuda::columns<S, V>, unsigned(tiles * chunks), threads, bytes, context_.stream, source_, where, out_, cut,
           stream_);
  }

  const char* data() const { return static_cast<const char*>(args_.input); }

  const ReduceArgs& args_;
  Context& context_;
  const int sms_;
  S source_;
  Output out_;
  bool stream_;
};

}  // namespace torch_reductions::cuda
