// How a recurrence is cut. None of this changes a bit of the result.
#pragma once
#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "lines.cuh"

namespace torch_reductions::cuda {

template <class T>
class RecurrencePlan {
  using Value = Step<Native<T>>;

 public:
  RecurrencePlan(const RecurrenceArgs& args, Context& context) : args_(args), context_(context) {}

  void run() {
    const int64_t size = sizeof(T), count = args_.outer * args_.inner, run = kStepsOfRun<T>;
    const auto bytes = [&](const Strides& s) { return Strides{s.outer * size, s.length * size, s.inner * size}; };
    const RecurrenceLines lines{.gates = static_cast<const char*>(args_.gates),
                                .tokens = static_cast<const char*>(args_.tokens),
                                .initial = static_cast<const char*>(args_.initial),
                                .output = static_cast<char*>(args_.output),
                                .count = count,
                                .length = args_.length,
                                .inner = args_.inner,
                                .gate_bytes = bytes(args_.gate_strides),
                                .token_bytes = bytes(args_.token_strides),
                                .reverse = args_.reverse};
    // Lanes are neighbours in memory: lines, or, where a line is contiguous and long, its runs.
    Cut cut{};
    const auto of_warp = [&] { return run * cut.runs(); };
    const Strides& s = args_.token_strides;
    const bool along = s.length < (args_.inner > 1 ? s.inner : s.outer);
    while (cut.log_lines < 5 && int64_t(1) << cut.log_lines < count && (!along || of_warp() / 2 >= args_.length)) {
      cut.log_lines++;
    }
    if (cut.log_lines == 0 && args_.inner == 1 && s.length == 1 && args_.gate_strides.length == 1)
      return start<Along<T>>(lines, cut);
    if (cut.log_lines == 5 && args_.inner % 32 == 0 && count / 32 < INT32_MAX && args_.length < INT32_MAX &&
        in_vectors(lines.gates, args_.gate_strides) && in_vectors(lines.tokens, s) && is_aligned(lines.output))
      return start<SideBySide<T>>(lines, cut);
    // 16 bytes apart the runs of a line meet different banks as vectors, else as single words.
    cut.run_bytes = int((run * size) << cut.log_lines) + (cut.log_lines == 0 ? 16 : 4 << cut.log_lines);
    start<OneByOne<T>>(lines, cut);
  }

 private:
  static constexpr int64_t kAheadFrom = 4, kAhead = 2;  // tiles of a multiprocessor

  static bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
  // Are 32 neighbouring lines whole vectors, wherever they begin?
  static bool in_vectors(const void* data, const Strides& s) {
    return is_aligned(data) && s.inner == 1 && (s.length | s.outer) * int64_t(sizeof(T)) % 16 == 0;
  }

  template <class Layout>
  void start(const RecurrenceLines& lines, Cut cut) {
    const int64_t of_warp = kStepsOfRun<T> * cut.runs();
    while (cut.log_warps < kLogLineWarps && of_warp << cut.log_warps < lines.length) cut.log_warps++;
    const int64_t strips = ceil_div(lines.count, int64_t(1) << cut.log_lines);
    const int64_t groups = ceil_div(strips, int64_t(1) << (kLogLineWarps - cut.log_warps));
    const int64_t tiles = ceil_div(lines.length, of_warp << cut.log_warps), work = groups * tiles;
    cut.groups = unsigned(groups);

    // Totals run ahead where lines have many tiles, as in a scan.
    const int64_t sms = multiprocessors(context_.device);
    Carry<kLineRadix> carry{};
    const int64_t totals = carry.set(tiles, lines.count);
    if (tiles >= kAheadFrom * sms && Layout::kLogLines != 0)
      carry.ahead = unsigned(work < kAhead * sms ? work : kAhead * sms);
    if (tiles > 1) carry.board = context_.board(totals * lines.count * kTaggedWords<Value>);
    const size_t shared = size_t(2 * Layout::bytes_of_warp(cut)) << kLogLineWarps;
    launch(&recur_lines<Layout>, work + carry.ahead, kLineThreads, shared, context_.stream, lines, cut, unsigned(work),
           carry);
  }

  const RecurrenceArgs& args_;
  Context& context_;
};

}  // namespace torch_reductions::cuda
