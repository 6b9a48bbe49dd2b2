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
    Cut cut{};
    const auto of_warp = [&] { return run * cut.runs(); };
    // Lanes are neighbours in memory: lines, or, where a line is contiguous and long, its runs.
    const Strides& s = args_.token_strides;
    const bool along = s.length < (args_.inner > 1 ? s.inner : s.outer);
    while (cut.log_lines < 5 && int64_t(1) << cut.log_lines < count && (!along || of_warp() / 2 >= args_.length)) {
      cut.log_lines++;
    }
    // 16 bytes apart the runs of a line meet different banks as vectors, else as single words.
    cut.along =
        cut.log_lines == 0 && args_.token_strides.length == 1 && args_.gate_strides.length == 1 && args_.inner == 1;
    cut.run_bytes = int((run * size) << cut.log_lines) + (cut.log_lines == 0 ? 16 : 4 << cut.log_lines);
    while (cut.log_warps < kLogLineWarps && of_warp() << cut.log_warps < args_.length) cut.log_warps++;
    const int64_t strips = ceil_div(count, int64_t(1) << cut.log_lines);
    const int64_t groups = ceil_div(strips, int64_t(1) << (kLogLineWarps - cut.log_warps));
    const int64_t tiles = ceil_div(args_.length, of_warp() << cut.log_warps), work = groups * tiles;
    cut.groups = unsigned(groups);

    // Totals run ahead where lines have many tiles, as in a scan.
    const int64_t sms = multiprocessors(context_.device);
    Carry<kLineRadix> carry{};
    const int64_t totals = carry.set(tiles, count);
    if (tiles >= kAheadFrom * sms && !cut.along) carry.ahead = unsigned(work < kAhead * sms ? work : kAhead * sms);
    if (tiles > 1) carry.board = context_.board(totals * count * kTaggedWords<Value>);
    const size_t shared = size_t(2 * cut.warp_bytes()) << kLogLineWarps;
    launch(&recur_lines<T>, work + carry.ahead, kLineThreads, shared, context_.stream, lines, cut, unsigned(work),
           carry);
  }

 private:
  static constexpr int64_t kAheadFrom = 4, kAhead = 2;  // tiles of a multiprocessor

  const RecurrenceArgs& args_;
  Context& context_;
};

}  // namespace torch_reductions::cuda
