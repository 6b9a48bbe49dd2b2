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
  static constexpr bool kRows = sizeof(T) > 2 || std::is_same_v<Value, float>;

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
              args.reverse};
  }

  void run() {
    if constexpr (kRows)
      if (args_.inner == 1 && (args_.length_stride == 1 || args_.length <= 1)) return rows();
    columns();
  }

 private:
  static constexpr int kRowRun = kVectors<Value> * S::E;

  // A tile of as many threads as still leave every multiprocessor two of them; several lines a block where they are short.
  void rows() {
    const int64_t count = args_.outer, results = args_.results;
    int log_block = log2_of(kScanThreads);
    const auto tiles = [&] { return ceil_div(results, int64_t(kRowRun) << log_block); };
    const auto blocks = [&] {
      return tiles() > 1 ? count * tiles() : ceil_div(count * ceil_div(results, kRowRun), int64_t(1) << log_block);
    };
    while (log_block > 6 && blocks() < sms_ * 2) log_block--;
    int log_threads = log_block;
    if (tiles() == 1)
      while (log_threads > 0 && int64_t(kRowRun) << (log_threads - 1) >= results) log_threads--;
    const int64_t groups = tiles() > 1 ? count : ceil_div(count, int64_t(1) << (log_block - log_threads));
    const auto carry = this->carry<kRowRadix>(tiles(), groups);
    const size_t bytes = size_t(16 * kVectors<Value>) << log_block;
    launch(&scan_rows<S>, groups * tiles(), 1u << log_block, bytes, context_.stream, source_, lines_, count,
           log_threads, carry);
  }

  void columns() {
    const int64_t count = args_.outer * args_.inner;
    int log_lines = 0;
    while (log_lines < 5 && int64_t(1) << log_lines < count) log_lines++;
    const int64_t tile = int64_t(kRun<Value>) * (kColumnThreads >> log_lines);
    const int64_t tiles = ceil_div(args_.results, tile), strips = ceil_div(count, int64_t(1) << log_lines);
    launch(&scan_columns<S>, tiles * strips, kColumnThreads, 0, context_.stream, source_, lines_, count, log_lines,
           carry<kColumnRadix>(tiles, count));
  }

  template <int Radix>
  Carry<Radix> carry(int64_t tiles, int64_t lines) {
    Carry<Radix> carry{};
    carry.set(tiles, lines);
    if (tiles > 1) carry.board = context_.board(carry.slots() * lines * kTaggedWords<Value>);
    return carry;
  }

  const ScanArgs& args_;
  Context& context_;
  const int sms_;
  S source_;
  Lines lines_;
};

}  // namespace torch_reductions::cuda
