// Products with a k of at most kShallowDepth: writing the result is what takes the time. A lane holds all of k of a few
// lines of one operand in registers, neighbours in the result with its neighbours; the rows of the other one come from
// shared memory, one after another, the same for all lanes.
#pragma once
#include "operand.cuh"
#include "tuning.h"

namespace torch_reductions::cuda::matmul {

template <class P>
struct ShallowJob {
  MatmulArgs args;
  Operand<P> rows, lines;            // lines lie across lanes
  bool lines_are_rows;               // of the result
  int log_rows, log_down;            // rows of a warp; warps of a block with other rows: the rest have other lines
  unsigned row_groups, line_groups;  // of a batch
};

inline constexpr int kShallowThreads = 256, kLogShallowWarps = 3;
inline constexpr int kLeastLogShallowRows = 1;  // of a warp
inline constexpr int kShallowLines = 4;         // of a lane

template <class P>
__global__ void __launch_bounds__(kShallowThreads) multiply_shallow(const __grid_constant__ ShallowJob<P> job) {
  constexpr int kLines = kShallowLines, kDepth = kShallowDepth, kV = 16 / int(sizeof(P));
  using Vector = AlignedVector<P, kV>;
  const Vector* const staged = reinterpret_cast<const Vector*>(memory);
  const MatmulArgs& args = job.args;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, down = 1 << job.log_down, k = int(args.k);
  const unsigned line_group = blockIdx.x % job.line_groups, rest = blockIdx.x / job.line_groups;
  const int log_rows = job.log_rows + job.log_down;  // of the block
  const int64_t batch = rest / job.row_groups, first_row = int64_t(rest % job.row_groups) << log_rows;

  // The rows, by threads that are neighbours along memory. Behind k -0 times +0 is added, which changes nothing.
  P* const to = reinterpret_cast<P*>(memory);
  const bool across = job.rows.mn_stride == 1;
  for (int i = threadIdx.x; i < kDepth << log_rows; i += kShallowThreads) {
    const int r = across ? i & (1 << log_rows) - 1 : i / kDepth, at = across ? i >> log_rows : i % kDepth;
    to[r * kDepth + at] = at < k && first_row + r < job.rows.lines ? *job.rows.at(batch, first_row + r, at) : P(-0.);
  }

  const int64_t first_line =
      (int64_t(line_group) * ((1 << kLogShallowWarps) >> job.log_down) + warp / down) * (32 * kLines) + lane;
  P own[kLines][kDepth];
#pragma unroll
  for (int l = 0; l < kLines; l++) {
    const int64_t line = first_line + 32 * l;
    const P* const from = job.lines.at(batch, line, 0);
#pragma unroll
    for (int at = 0; at < kDepth; at++)
      own[l][at] = at < k && line < job.lines.lines ? from[at * job.lines.k_stride] : P(0);
  }
  __syncthreads();

  const int own_rows = warp % down << job.log_rows;
  const int64_t left = job.rows.lines - first_row - own_rows;
  const int rows = int(min(left, int64_t(1) << job.log_rows));
  const int64_t row_step = job.lines_are_rows ? 1 : args.n, line_step = job.lines_are_rows ? args.n : 1;
  P* out = static_cast<P*>(args.output) + batch * args.m * args.n + (first_row + own_rows) * row_step +
           first_line * line_step;
#pragma unroll 1
  for (int r = 0; r < rows; r++, out += row_step) {
    P sums[kLines];
#pragma unroll
    for (int l = 0; l < kLines; l++) sums[l] = 0;
#pragma unroll
    for (int v = 0; v < kDepth / kV; v++) {
      const Vector row = staged[(own_rows + r) * (kDepth / kV) + v];
#pragma unroll
      for (int i = 0; i < kV; i++)
#pragma unroll
        for (int l = 0; l < kLines; l++) sums[l] = multiply_add(row.element[i], own[l][v * kV + i], sums[l]);
    }
#pragma unroll
    for (int l = 0; l < kLines; l++) {
      const int64_t line = first_line + 32 * l, row = first_row + own_rows + r;
      if (line < job.lines.lines)
        out[32 * l * line_step] =
            product_of<P>(args, batch, job.lines_are_rows ? line : row, job.lines_are_rows ? row : line, sums[l]);
    }
  }
}

}  // namespace torch_reductions::cuda::matmul
