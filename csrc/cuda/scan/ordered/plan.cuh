// Which ordered kernel runs, and how it is cut. None of this changes a bit of the result.
#pragma once

#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "columns.cuh"
#include "rows.cuh"

namespace torch_reductions::cuda {

template <class T, class Op>
class ScanPlan {
  using S = Input<T, Op>;
  using Value = typename Op::Value;

  // Only what pays is instantiated: the columns kernel serves every other case.
  static constexpr bool kRows = sizeof(T) > 2 || sizeof(Value) <= 8;

 public:
  ScanPlan(const ScanArgs& args, Context& context)
      : args_(args), context_(context), sms_(multiprocessors(context.device)) {
    const int64_t size = sizeof(T);
    source_ = {args.function == Scan::cummin ? kFlip<Native<T>> : 0, args.dtype == Dtype::int8 ? 128 : 0};
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
              args.mask};
  }

  void run() {
    if constexpr (kRows)
      if (args_.inner == 1 && (args_.length_stride == 1 || args_.length <= 1)) return rows();
    columns();
  }

 private:
  // A multiprocessor's tiles: of a line whose totals run ahead, and that they run ahead.
  static constexpr int64_t kAheadFrom = 4, kAhead = 2;
  static constexpr int64_t kBlocks = 1;  // that a multiprocessor should have, rather than larger ones
  static constexpr int kRowRun = kVectors<Value> * S::E;
  static constexpr int kMostRowBytes = 60 * 1024;  // of a block: what 7.5 has, and some for the static ones

  // A tile of as many threads as still leave every multiprocessor some of them; several lines a block where they are short.
  void rows() {
    const int64_t count = args_.outer, results = args_.results;
    // As many threads as a short line takes, or the most.
    int log_block = results > int64_t(kRowRun) * kRowThreads / 2 ? log2_of(kRowThreads) : log2_of(kRowThreads) - 1;
    while (kRowBytes<S> << log_block > kMostRowBytes) log_block--;
    const auto tiles = [&] { return ceil_div(results, int64_t(kRowRun) << log_block); };
    const auto blocks = [&] {
      return tiles() > 1 ? count * tiles() : ceil_div(count * ceil_div(results, kRowRun), int64_t(1) << log_block);
    };
    while (log_block > 6 && blocks() < kBlocks * sms_) log_block--;
    int log_threads = log_block;
    if (tiles() == 1)
      while (log_threads > 0 && int64_t(kRowRun) << (log_threads - 1) >= results) log_threads--;
    const int64_t groups = tiles() > 1 ? count : ceil_div(count, int64_t(1) << (log_block - log_threads));
    const size_t bytes = size_t(kRowBytes<S>) << log_block;
    start(&scan_rows<S>, groups * tiles(), 1u << log_block, bytes, carry<kRowRadix>(tiles(), groups, groups * tiles()),
          count, log_threads);
  }

  void columns() {
    const int64_t size = sizeof(T), inner = args_.inner, count = args_.outer * inner;
    const bool together = args_.inner_stride == 1 || inner == 1;
    Strips strips{};
    while (strips.log_lines < 5 && int64_t(1) << strips.log_lines < count) strips.log_lines++;
    strips.lines = 1 << strips.log_lines;
    if (together && args_.length_stride == inner && inner < 32) {
      strips.kind = Strips::packed;
      strips.log_lines = 0;
      while (1 << strips.log_lines < inner) strips.log_lines++;
      strips.lines = int(inner);
    } else if (together && strips.lines == 32 && (inner % 32 == 0 || args_.outer == 1) && inner * size % 16 == 0 &&
               is_aligned(args_.input) && lines_.length_bytes % 16 == 0 && lines_.outer_bytes % 16 == 0) {
      strips.kind = Strips::rows;
    }
    const int64_t run = kRun<Value>, of_warp = run * strips.runs();
    strips.row_bytes = strips.lines * int(size);
    strips.run_bytes = int(ceil_div(run * strips.row_bytes, 16) * 16) + (strips.log_lines < 5 ? 16 : 0);
    strips.outer_bytes = lines_.outer_bytes;
    const int64_t strip_count = strips.kind == Strips::packed ? args_.outer : ceil_div(count, strips.lines);
    int64_t groups, tiles;
    for (strips.log_block = kLogColumnWarps;; strips.log_block--) {
      strips.log_warps = 0;
      while (strips.log_warps < strips.log_block && of_warp << strips.log_warps < args_.results) strips.log_warps++;
      groups = ceil_div(strip_count, int64_t(1) << (strips.log_block - strips.log_warps));
      tiles = ceil_div(args_.results, of_warp << strips.log_warps);
      if (strips.log_block == 0 || groups * tiles >= kBlocks * sms_) break;
    }
    strips.groups = unsigned(groups);
    start(&scan_columns<S>, groups * tiles, 32u << strips.log_block, strips.tile_bytes(),
          carry<kColumnRadix>(tiles, count, groups * tiles), strips, count);
  }

  static bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

  // A block a tile, and those whose totals run ahead.
  template <class Kernel, int Radix, class... Rest>
  void start(Kernel kernel, int64_t work, unsigned threads, size_t bytes, const Carry<Radix>& carry,
             const Rest&... rest) {
    launch(kernel, work + carry.ahead, threads, bytes, context_.stream, source_, lines_, rest..., unsigned(work),
           carry);
  }

  // Totals run ahead where lines have many tiles: about half as far as blocks are resident, so that what was read is still
  // in the L2. Not those of LogAdd, which takes longer to compute than to wait for, nor where elements are hidden.
  template <int Radix>
  Carry<Radix> carry(int64_t tiles, int64_t lines, int64_t work) {
    Carry<Radix> carry{};
    const int64_t totals = carry.set(tiles, lines);
    if (kIsNone<Op, LogAdd> && args_.mask.data == nullptr && tiles >= kAheadFrom * sms_)
      carry.ahead = unsigned(min(kAhead * int64_t(sms_), work));
    if (tiles > 1) carry.board = context_.board(totals * lines * kTaggedWords<Value>);
    return carry;
  }

  const ScanArgs& args_;
  Context& context_;
  const int sms_;
  S source_;
  Lines lines_;
};

}  // namespace torch_reductions::cuda
