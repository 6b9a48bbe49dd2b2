// How a recurrence is divided into tiles. None of this changes a bit of the result.
#pragma once
#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "../instances.h"
#include "lines.cuh"
#include "shifted.cuh"

namespace torch_reductions::cuda::recurrence {

template <class T>
class RecurrencePlan {
 public:
  RecurrencePlan(const RecurrenceArgs& args, Context& context)
      : args_(args),
        context_(context),
        sms_(multiprocessors(context.device)),
        shared_(shared_memory(context.device)),
        lines_(lines_of(args, sizeof(T))) {}

  void run() {
    const int64_t size = sizeof(T), run = kRun, inner = args_.inner, count = lines_.count;
    // Lanes are neighbours in memory: lines, or, where a line is contiguous and long, its runs.
    LineConfig config{};
    const auto of_warp = [&] { return run * config.runs(); };
    const Strides& s = args_.token_strides;
    const bool along = s.length < (inner > 1 ? s.inner : s.outer);
    const bool contiguous = inner == 1 && s.length == 1 && args_.gate_strides.length == 1;
    while (config.log_lines < 5 && int64_t(1) << config.log_lines < count &&
           (!along || of_warp() / (contiguous ? 4 : 2) >= args_.length)) {
      config.log_lines++;
    }
    if (config.log_lines == 0 && contiguous)
      return args_.reverse ? start<Contiguous, true>(config, count) : start<Contiguous, false>(config, count);
    if (args_.reverse) lines_.turn_round();
    config.inner = FastDiv(inner);
    const bool side_by_side = config.log_lines == 5 && args_.length <= INT32_MAX / 2 && are_near(inner * size) &&
                              are_rows(lines_.gate_bytes) && are_rows(lines_.token_bytes);
    if (side_by_side && inner * size % 16 == 0 && count <= INT32_MAX && are_vectors(lines_.gates, lines_.gate_bytes) &&
        are_vectors(lines_.tokens, lines_.token_bytes) && is_aligned(args_.output) && is_aligned(args_.initial))
      return start<SideBySide>(config, ceil_div(count, 32));
    // Of whole strips at most a quarter of the lanes is idle. Doubles gain nothing (measured).
    if (side_by_side && size < 8 && whole_strips() <= inner + inner / 3 && args_.outer * whole_strips() <= INT32_MAX)
      return recur_linear_shifted(args_, context_);
    // 16 bytes apart, the runs of a line lie in different banks as vectors, otherwise as single words.
    const int apart = config.log_lines == 0 ? 16 : config.log_lines < 5 ? 4 << config.log_lines : 0;
    config.run_bytes = int((run * size) << config.log_lines) + apart;
    start<Strided>(config, ceil_div(count, int64_t(1) << config.log_lines));
  }

  // By linear_shifted.cu: one file would take too long to compile.
  void run_shifted() {
    if (args_.reverse) lines_.turn_round();
    LineConfig config{};
    config.log_lines = 5;
    config.inner = FastDiv(whole_strips());
    lines_.count = args_.outer * whole_strips();
    start<Shifted>(config, lines_.count / 32);
  }

 private:
  static constexpr int64_t kRun = Strided<T, true>::Run;

  // Do the offsets of a run's rows from the first one fit in 32 bits?
  static bool are_near(int64_t row_bytes) { return row_bytes <= INT32_MAX / kRun && -row_bytes <= INT32_MAX / kRun; }
  // Are the elements of each row neighbours?
  static bool are_rows(const Strides& bytes) { return bytes.inner == int64_t(sizeof(T)) && are_near(bytes.length); }
  // Is each row a sequence of whole vectors?
  static bool are_vectors(const void* data, const Strides& bytes) {
    return is_aligned(data) && (bytes.length | bytes.outer) % 16 == 0;
  }
  // The lines of an outer where strips of 32 are filled up.
  int64_t whole_strips() const { return ceil_div(args_.inner, 32) * 32; }

  // As in a scan: one block per tile; where tiles are carried, as many blocks as are resident, each of which takes tile
  // after tile.
  template <template <class, bool, auto...> class Layout, auto... way>
  void start(LineConfig config, int64_t strips) {
    using Carried = Layout<T, true, way...>;
    using Tiles = LineTiles<Carried, false>;
    constexpr int kStorageBytes = sizeof(typename Tiles::TempStorage) + 1024;
    const int64_t of_warp = int64_t(Tiles::Run) * config.runs();
    int64_t groups, tiles;
    config.log_block = kLogLineWarps;
    while (kBuffers * Tiles::tile_bytes(config) + kStorageBytes > shared_) config.log_block--;
    for (;; config.log_block--) {
      config.log_warps = 0;
      while (config.log_warps < config.log_block && of_warp << config.log_warps < args_.length) config.log_warps++;
      groups = ceil_div(strips, int64_t(1) << (config.log_block - config.log_warps));
      tiles = ceil_div(args_.length, of_warp << config.log_warps);
      if (config.log_block == 0 || groups * tiles >= sms_) break;
    }
    const int64_t work = groups * tiles;
    if (work > INT32_MAX) fail("more than 2^31 - 1 tiles in one launch");
    config.groups = FastDiv(groups);

    Carry<kLaneRadix> carry{};
    const int64_t columns = strips << config.log_lines, totals = carry.set(tiles, columns);
    const unsigned threads = 32u << config.log_block;
    int64_t blocks = work;
    int bytes = Tiles::tile_bytes(config);
    if (tiles > 1) {
      carry.tile_state = context_.tile_state(totals * columns * kTaggedWords<typename Tiles::Value>);
      const int by_threads = Carried::kBlocks * kLineThreads / int(threads);
      const int by_memory = (shared_ + 1024) / (kBuffers * bytes + kStorageBytes);
      const int64_t resident = int64_t(sms_) * (by_memory < 1 ? 1 : by_memory < by_threads ? by_memory : by_threads);
      if (blocks > resident) blocks = resident, bytes *= kBuffers;
    }
    using Alone = Layout<T, false, way...>;
    static_assert(int(Alone::Run) == int(Carried::Run), "both are config in one way");
    const auto either = [&](auto* carried, auto* alone) { return tiles > 1 ? carried : alone; };
    auto kernel = either(&recur_lines<Carried, false>, &recur_lines<Alone, false>);
    if constexpr (!(way || ...))  // not of a reverse one
      if (args_.before_gates != nullptr || args_.total_gates != nullptr)
        kernel = either(&recur_lines<Carried, true>, &recur_lines<Alone, true>);
    launch(kernel, blocks, threads, bytes, context_.stream, lines_, config, unsigned(work), carry);
  }

  const RecurrenceArgs& args_;
  Context& context_;
  const int sms_, shared_;
  RecurrenceLines lines_;
};

}  // namespace torch_reductions::cuda::recurrence
