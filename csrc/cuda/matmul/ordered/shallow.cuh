// Products with a short k: writing the result is what takes the time. A lane holds all of k of a few lines of one
// operand in registers, neighbours in the result with its neighbours; the rows of the other one come from shared
// memory, one after another, the same for all lanes.
#pragma once
#include "operand.cuh"
#include "tuning.h"

namespace torch_reductions::cuda::matmul {

template <class P>
struct ShallowJob {
  MatmulArgs args;
  Operand<P> rows, lines;  // lines lie across lanes
  struct Steps {
    int64_t row, line;     // from one to the next
  } out, added;            // of the result, and of what is added
  bool staged;             // do lines come by way of shared memory, because lanes are no neighbours in memory?
  int log_rows, log_down;  // rows of a warp; warps of a block with other rows: the rest have other lines
  unsigned row_groups, line_groups;  // of a batch
};

inline constexpr int kShallowThreads = 256, kLogShallowWarps = 3;
inline constexpr int kLeastLogShallowRows = 1;  // of a warp

// Elements of shared memory: the rows of a block, and its lines, each with one more than its depth, so that lanes that
// read their own ones meet in no bank.
template <int Depth, int Lines>
struct ShallowSizes {
  static constexpr int kLine = Depth + 1, kLinesOfWarp = 32 * Lines;
  static constexpr bool kStages = Depth > 8;  // lines of few elements are read by their own lanes
  static HOST_DEVICE constexpr int rows(int log_rows) { return Depth << log_rows; }
  static HOST_DEVICE constexpr int lines(int log_down) { return kLine * kLinesOfWarp << (kLogShallowWarps - log_down); }
};

// Depth: of k, at most; Lines: of a lane.
template <class P, int Depth, int Lines>
__global__ void __launch_bounds__(kShallowThreads) multiply_shallow(const __grid_constant__ ShallowJob<P> job) {
  using Sizes = ShallowSizes<Depth, Lines>;
  constexpr int kV = 16 / int(sizeof(P)), kLine = Sizes::kLine;
  using Vector = AlignedVector<P, kV>;
  const MatmulArgs& args = job.args;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, down = 1 << job.log_down, k = int(args.k);
  const unsigned line_group = blockIdx.x % job.line_groups, rest = blockIdx.x / job.line_groups;
  const int log_rows = job.log_rows + job.log_down;  // of the block
  const int64_t batch = rest / job.row_groups, first_row = int64_t(rest % job.row_groups) << log_rows;

  // The rows, by threads that are neighbours along memory. Behind k -0 times +0 is added, which changes nothing.
  P* const rows = reinterpret_cast<P*>(memory);
  const bool across = job.rows.mn_stride == 1;
  for (int i = threadIdx.x; i < Depth << log_rows; i += kShallowThreads) {
    const int r = across ? i & (1 << log_rows) - 1 : i / Depth, at = across ? i >> log_rows : i % Depth;
    P* const to = rows + r * Depth + at;
    if (at < k && first_row + r < job.rows.lines) cp_async<sizeof(P)>(to, job.rows.at(batch, first_row + r, at));
    else *to = P(-0.);
  }
  // The lines, by the warps that share them.
  const int own_group = warp / down;
  const int64_t first_line =
      (int64_t(line_group) * ((1 << kLogShallowWarps) >> job.log_down) + own_group) * Sizes::kLinesOfWarp;
  P* const lines = rows + Sizes::rows(log_rows) + own_group * (kLine * Sizes::kLinesOfWarp);
  const bool staged = Sizes::kStages && job.staged;
  if (staged) {
    const int most = int(min(job.lines.lines - first_line, int64_t(Sizes::kLinesOfWarp)));
#pragma unroll 4
    for (int i = warp % down * 32 + lane; i < Depth * most; i += 32 * down) {
      const int line = i / Depth, at = i % Depth;
      if (at < k) cp_async<sizeof(P)>(lines + line * kLine + at, job.lines.at(batch, first_line + line, at));
    }
  }
  cp_async_commit();

  const int64_t own_line = first_line + lane;
  const int left_lines = int(min(job.lines.lines - own_line, int64_t(Sizes::kLinesOfWarp)));
  P own[Lines][Depth];
  if (!staged) {
#pragma unroll
    for (int l = 0; l < Lines; l++) {
      const P* const from = job.lines.at(batch, own_line + 32 * l, 0);
#pragma unroll
      for (int at = 0; at < Depth; at++)
        own[l][at] = at < k && 32 * l < left_lines ? from[at * job.lines.k_stride] : P(0);
    }
  }
  cp_async_wait<0>();
  __syncthreads();
  if (staged) {
#pragma unroll
    for (int l = 0; l < Lines; l++)
#pragma unroll
      for (int at = 0; at < Depth; at++)
        own[l][at] = at < k && 32 * l < left_lines ? lines[(32 * l + lane) * kLine + at] : P(0);
  }

  const int own_rows = warp % down << job.log_rows;
  const int64_t left = job.rows.lines - first_row - own_rows;
  const int own_count = int(min(left, int64_t(1) << job.log_rows));
  const int64_t first_own = first_row + own_rows;
  P* out = static_cast<P*>(args.output) + batch * args.m * args.n + first_own * job.out.row + own_line * job.out.line;
  const P* add = nullptr;
  if (args.added.data != nullptr)
    add = static_cast<const P*>(args.added.data) + batch * args.added.batch_stride + first_own * job.added.row +
          own_line * job.added.line;
  const Vector* from = reinterpret_cast<const Vector*>(rows + own_rows * Depth);
  const P alpha = P(args.alpha), beta = P(args.beta);
#pragma unroll 1
  for (int r = 0; r < own_count; r++, out += job.out.row, from += Depth / kV) {
    P addends[Lines], sums[Lines];
    if (add != nullptr) {  // all of them before the first store, over which no load moves
#pragma unroll
      for (int l = 0; l < Lines; l++)
        if (32 * l < left_lines) addends[l] = beta * add[32 * l * job.added.line];
      add += job.added.row;
    }
#pragma unroll
    for (int l = 0; l < Lines; l++) sums[l] = 0;
#pragma unroll
    for (int v = 0; v < Depth / kV; v++) {
      if (v >= Depth / kV / 2 && v * kV >= k) break;
      const Vector row = from[v];
#pragma unroll
      for (int i = 0; i < kV; i++)
#pragma unroll
        for (int l = 0; l < Lines; l++) sums[l] = multiply_add(row.element[i], own[l][v * kV + i], sums[l]);
    }
#pragma unroll
    for (int l = 0; l < Lines; l++) {
      P value = alpha * sums[l];  // by 1 changes nothing
      if (add != nullptr) value = value + addends[l];
      if (32 * l < left_lines) out[32 * l * job.out.line] = value;
    }
  }
}

}  // namespace torch_reductions::cuda::matmul
