// Products with few lines on one side, and so few blocks that a multiprocessor has one or two: a block computes 32 lines
// of the other side by the few over one chunk of k. All its threads copy, with all of a chunk in flight where shared
// memory holds it; a warp multiplies two of the few lines.
#pragma once
#include "skinny.cuh"

namespace torch_reductions::cuda::matmul {

inline constexpr int kFewDepth = 128, kFewStages = kProductChunk / kFewDepth, kFewRows = 2;  // rows of a warp
inline constexpr int kFewWarps = 8, kFewMostWarps = 16;  // they copy, also where they have no rows

// A stage: 32 of the many lines, as they lie in memory, and the few, whose k is the last index.
template <class P, bool kKMajor>
struct FewSizes {
  static constexpr int kVector = 16 / int(sizeof(P));
  static constexpr int kRow = kKMajor ? kFewDepth + kVector : 32;  // padded, so that lanes' vectors lie in other banks
  static constexpr int kMany = kKMajor ? 32 * kRow : kFewDepth * kRow;
  static HOST_DEVICE int of_stage(int few) { return kMany + few * kFewDepth; }  // elements
};

template <class T, class Out, bool kKMajor>
__global__ void __launch_bounds__(32 * kFewMostWarps, 1)
    multiply_few_lines(const __grid_constant__ SkinnyJob<T> job, int stages) {
  using Sizes = FewSizes<T, kKMajor>;
  constexpr int kV = Sizes::kVector, kRow = Sizes::kRow;
  using Vector = AlignedVector<T, kV>;
  start_next_launch();
  const MatmulArgs& args = job.args;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, few = int(job.few.lines);
  T* const buffers = reinterpret_cast<T*>(memory);
  const int64_t first_line = int64_t(blockIdx.x % job.line_groups) * 32;
  const unsigned of_batch = blockIdx.x / job.line_groups;
  const int64_t batch = of_batch % unsigned(args.batch), chunk = job.first + of_batch / unsigned(args.batch),
                first_k = chunk * kProductChunk;
  const int depth = int(min(args.k - first_k, int64_t(kProductChunk))),
            lines = int(min(job.many.lines - first_line, int64_t(32))), steps = (depth + kFewDepth - 1) / kFewDepth;

  // Of the many lines threads are neighbours along memory. Behind the end it is the last element again, never multiplied.
  const T* const many = job.many.at(batch, first_line, first_k);
  const T* const rows = job.few.at(batch, 0, first_k);
  const auto copy = [&](int step) {
    T* const to = buffers + step % stages * Sizes::of_stage(few);
    const int k0 = step * kFewDepth, last = depth - 1;
    if constexpr (kKMajor) {
      const int k = threadIdx.x % kFewDepth;
      const T* const from = many + min(k0 + k, last) * job.many.k_stride;
      for (int l = threadIdx.x / kFewDepth; l < 32; l += blockDim.x / kFewDepth)
        cp_async<sizeof(T)>(to + l * kRow + k, from + min(l, lines - 1) * job.many.mn_stride);
    } else {
      const T* const from = many + min(lane, lines - 1);
      for (int k = warp; k < kFewDepth; k += blockDim.x / 32)
        cp_async<sizeof(T)>(to + k * kRow + lane, from + min(k0 + k, last) * job.many.k_stride);
    }
    for (int i = threadIdx.x; i < few * kFewDepth; i += blockDim.x)
      cp_async<sizeof(T)>(to + Sizes::kMany + i,
                          rows + i / kFewDepth * job.few.mn_stride + min(k0 + i % kFewDepth, last) * job.few.k_stride);
  };
#pragma unroll 1
  for (int step = 0; step < kFewStages; step++) {  // a group each, so that kFewStages - 1 are those behind the next one
    if (step < stages && step < steps) copy(step);
    cp_async_commit();
  }

  T sums[kFewRows];
#pragma unroll
  for (int r = 0; r < kFewRows; r++) sums[r] = 0;
  const int first_row = warp * kFewRows;
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    if (step >= stages) cp_async_wait<0>();
    else cp_async_wait<kFewStages - 1>();
    __syncthreads();
    const T* const stage = buffers + step % stages * Sizes::of_stage(few);
    const T* const own = stage + lane * (kKMajor ? kRow : 1);
    const T* row[kFewRows];
#pragma unroll
    for (int r = 0; r < kFewRows; r++) row[r] = stage + Sizes::kMany + min(first_row + r, few - 1) * kFewDepth;
    const int left = min(depth - step * kFewDepth, kFewDepth);
    if (first_row < few) {
      int k = 0;
#pragma unroll 4
      for (; k + kV <= left; k += kV) {
        Vector b;
        if constexpr (kKMajor) b = *reinterpret_cast<const Vector*>(own + k);
        else {
#pragma unroll
          for (int v = 0; v < kV; v++) b.element[v] = own[(k + v) * kRow];
        }
#pragma unroll
        for (int r = 0; r < kFewRows; r++) {
          const Vector a = *reinterpret_cast<const Vector*>(row[r] + k);
#pragma unroll
          for (int v = 0; v < kV; v++) sums[r] = multiply_add(a.element[v], b.element[v], sums[r]);
        }
      }
#pragma unroll 1
      for (; k < left; k++)
#pragma unroll
        for (int r = 0; r < kFewRows; r++) sums[r] = multiply_add(row[r][k], own[k * (kKMajor ? 1 : kRow)], sums[r]);
    }
    if (step + stages < steps) {  // whose stage this was
      __syncthreads();
      copy(step + stages);
    }
    cp_async_commit();
  }

  // Where a result stands: the few lines are rows of it, or columns.
  if (lane >= lines) return;
  const int64_t row_step = job.few_are_columns ? 1 : args.n, line_step = job.few_are_columns ? args.n : 1;
#pragma unroll
  for (int r = 0; r < kFewRows; r++) {
    const int64_t l = first_line + lane, own = first_row + r;
    if (own >= few) continue;
    if (job.partials != nullptr)
      job.partials[((chunk - job.first) * args.batch + batch) * args.m * args.n + l * line_step + own * row_step] =
          sums[r];
    else store_product<Out>(args, batch, job.few_are_columns ? l : own, job.few_are_columns ? own : l, sums[r]);
  }
}

}  // namespace torch_reductions::cuda::matmul
