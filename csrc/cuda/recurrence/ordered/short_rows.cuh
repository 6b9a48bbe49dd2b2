// Short lines whose gates and tokens fill a part of memory together, as in scan/ordered/short_rows.cuh: a block copies
// many of them through shared memory, as they lie, and a thread has every 16 steps of a line in registers.
#pragma once
#include "../../scan/ordered/short_rows.cuh"
#include "layouts.cuh"

namespace torch_reductions::cuda::recurrence {

// Blocks of a multiprocessor: 16 steps of doubles take 64 registers.
template <class T>
inline constexpr int kShortRowBlocks = sizeof(T) < 8 ? 6 : 4;

// Of a block: gates, and tokens, over which the results are written.
template <class T>
struct ShortRowSteps {
  StagedSlabs gates, tokens;

  HOST_DEVICE ShortRowSteps(const RecurrenceLines& lines, int slabs)
      : gates(0, slabs, lines.length * lines.inner, sizeof(T)),
        tokens(gates.end, slabs, lines.length * lines.inner, sizeof(T)) {}
};

// Lines [outer, inner] of which every 2^log_runs threads have one, and a block `slabs` of the outer ones. inner: of
// lines.inner.
template <class T>
__global__ void __launch_bounds__(kShortRowThreads, kShortRowBlocks<T>)
    recur_short_rows(const __grid_constant__ RecurrenceLines lines, const __grid_constant__ FastDiv inner,
                     int64_t outer, int slabs, int log_runs, bool reverse) {
  using Number = Native<T>;
  using Op = Linear<Number>;
  using Value = typename Op::Value;
  constexpr int kSize = sizeof(T);
  const ShortRowSteps<T> shared(lines, slabs);
  const StagedSlabs &gates = shared.gates, &tokens = shared.tokens;
  const int64_t first = int64_t(blockIdx.x) * slabs, left = outer - first;
  const int here = left < slabs ? int(left) : slabs, width = int(lines.inner), length = int(lines.length);
  const auto copy_in = [&](const StagedSlabs& staged, const char* data) {
    const char* const from = data + first * staged.slab;
    staged.for_each<T>(from, here * staged.slab,
                       [&](char* to, int i, auto unit) { copy_one<decltype(unit)>(to, from + i); });
  };
  copy_in(gates, lines.gates), copy_in(tokens, lines.tokens);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  const int work = here * width << log_runs, lane = int(threadIdx.x) % 32;
  for (int t = int(threadIdx.x); t - lane < work; t += kShortRowThreads) {
    const auto [run, begin, o, i, n] = ShortRun(t, work, log_runs, inner, width, length);
    const int64_t line = (first + o) * width + i;
    const int step = reverse ? -width : width;
    const int from = (o * length + (reverse ? length - 1 - begin : begin)) * width + i;
    Value x[kMostShort] = {};
    tokens.with_padding([&](auto padded) {
#pragma unroll
      for (int k = 0; k < kMostShort; k++) {
        const int at = (from + k * step) * kSize;
        if (k < n)
          x[k] = {load_native<T>(gates.template at<padded>(at)), load_native<T>(tokens.template at<padded>(at))};
      }
    });
    blocks_of_line<Op>(x, n);
    SoFar<Op> before;
    if (n > 0) before = before_line<Number>(lines, line);
    Value end = x[kMostShort - 1];
    if (log_runs > 0) {
      Value total = end;
      end = join_runs(before, total, log_runs, run);
      if (run == 0 && n > 0 && length == kMostShort << log_runs) put_total(lines, line, total);
    } else if (n > 0) {
      put_total_of(x, n, [&](Value all) { put_total(lines, line, all); });
    }
    folds_of_line<Op>(x, n, before);
    if (log_runs > 0 && n == kMostShort) x[kMostShort - 1] = end;
    const Number h = n > 0 ? initial_state<T>(lines, line) : Number{};
    Number y[kMostShort];
#pragma unroll
    for (int k = 0; k < kMostShort; k++) y[k] = lines.initial != nullptr ? Op::apply(x[k], h) : x[k].token;
    T results[kMostShort];
    narrow(results, y);
    tokens.with_padding([&](auto padded) {
#pragma unroll
      for (int k = 0; k < kMostShort; k++)
        if (k < n) *reinterpret_cast<T*>(tokens.template at<padded>((from + k * step) * kSize)) = results[k];
    });
  }
  __syncthreads();
  char* const to = lines.output + first * tokens.slab;
  tokens.for_each<T>(to, here * tokens.slab,
                     [&](const char* from, int i, auto unit) { copy_one<decltype(unit), false>(to + i, from); });
}

template <class T>
void launch_short_rows(int64_t outer, Context& context, const RecurrenceLines& lines, bool reverse) {
  const ShortRowGrid grid(outer, lines.length, lines.inner, context,
                          [&](int slabs) { return ShortRowSteps<T>(lines, slabs).tokens.end; });
  launch(&recur_short_rows<T>, grid.blocks, kShortRowThreads, grid.bytes, context.stream, lines, FastDiv(lines.inner),
         outer, grid.slabs, grid.log_runs, reverse);
}

}  // namespace torch_reductions::cuda::recurrence
