// Products with at most 4 lines on one side: a warp computes 32 lines of the other side by the few, one lane per
// line, over one chunk of k. Each warp has its own pipeline of copies: the only barrier is at the end,
// where a block whose warps have all chunks of a group of lines adds them from left to right.
#pragma once
#include "../../primitives/dependent.cuh"
#include "operand.cuh"
#include "tuning.h"

namespace torch_reductions::cuda::matmul {

template <class T>
struct SkinnyJob {
  MatmulArgs args;
  Operand<T> few, many;
  bool few_are_columns;  // the few lines are b's
  unsigned line_groups;  // of the many lines
  // Chunks `first` to `last`. Each one's values go to a partial, if there are partials.
  int64_t first, last;
  T* partials;
};

// The stages of a warp: `Rows` of the few lines, and a panel of the many. Both as they lie in memory, except for lines
// that are not whole: k is the last index of the few.
template <class T, int Rows, Layout kLayout>
struct SkinnySizes {
  static constexpr int kVector = 16 / int(sizeof(T)), kDepth = kSkinnyDepth, kStages = skinny_stages(Rows);
  static constexpr bool kKMajor = is_k_major(kLayout);
  static constexpr int kRow = kKMajor ? kDepth + kVector : 32;  // padded, so that lanes' vectors lie in different banks
  static constexpr int kFew = Rows * kDepth, kStage = kFew + (kKMajor ? 32 : kDepth) * kRow;
  static constexpr int kWarp = kStages * kStage;
  static constexpr size_t kBytes = sizeof(T) * kWarp;  // of a warp; its values fit there too
  static_assert(kWarp >= Rows * 32);
};

template <class T, int Rows, Layout kLayout>
__global__ void __launch_bounds__(32 * skinny_warps(sizeof(T)), 1)
    multiply_skinny(const __grid_constant__ SkinnyJob<T> job) {
  using Sizes = SkinnySizes<T, Rows, kLayout>;
  constexpr int kV = Sizes::kVector, kDepth = Sizes::kDepth, kStages = Sizes::kStages, kCopied = vector_of<T>(kLayout);
  using Vector = AlignedVector<T, kV>;
  using Own = Pieces<32, kDepth, 32, Sizes::kKMajor, kCopied, kDepth / kCopied>;
  start_next_launch();
  const MatmulArgs& args = job.args;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  T* const stages = reinterpret_cast<T*>(memory) + warp * Sizes::kWarp;
  const int64_t first_line = int64_t(blockIdx.x % job.line_groups) * 32;
  const unsigned of_batch = blockIdx.x / job.line_groups;
  const int64_t batch = of_batch % unsigned(args.batch);
  const int64_t chunk = job.first + int64_t(of_batch / unsigned(args.batch)) * warps + warp;
  const int depth =
      int(max(min((min(chunk + 1, job.last)) * kProductChunk, args.k) - chunk * kProductChunk, int64_t(0)));
  const int rows = int(job.few.lines), lines = int(min(job.many.lines - first_line, int64_t(32)));

  T sums[Rows];
#pragma unroll
  for (int r = 0; r < Rows; r++) sums[r] = 0;
  if (depth > 0) {
    const T* const few = job.few.at(batch, 0, chunk * kProductChunk);
    const T* const many = job.many.at(batch, first_line, chunk * kProductChunk);
    const int line = Own::line_of(lane), k_of_lane = Own::depth_of(lane);
    const int64_t line_step = Sizes::kKMajor ? job.many.mn_stride : 1;
    const int64_t depth_step = Sizes::kKMajor ? 1 : job.many.k_stride;
    const auto copy = [&](int stage, int slot) {
      T* const to = stages + slot * Sizes::kStage;
      const int k0 = stage * kDepth;
      const auto slot_of = [&](int piece) {
        const int l = line + Own::line_step(piece), k = k_of_lane + Own::depth_step(piece);
        return to + Sizes::kFew + (Sizes::kKMajor ? l * Sizes::kRow + k : k * Sizes::kRow + l);
      };
      if (lines == 32 && (depth - k0 >= kDepth || Own::kDepthSteps == 1)) {
        const bool wanted = k0 + k_of_lane < depth;
        const T* from = many + line * line_step + (k0 + k_of_lane) * depth_step;
#pragma unroll
        for (int piece = 0; piece < Own::kCount; piece++) {
          copy_piece<kCopied>(wanted, slot_of(piece), from);
          from = opaque(from + (Sizes::kKMajor ? Own::kAcross * line_step : Own::kThreadsOfK * depth_step));
        }
      } else {
#pragma unroll 1
        for (int piece = 0; piece < Own::kCount; piece++) {
          const int l = line + Own::line_step(piece), k = k0 + k_of_lane + Own::depth_step(piece);
          copy_piece<kCopied>(l < lines && k < depth, slot_of(piece), many + l * line_step + k * depth_step);
        }
      }
      const T* from = few + (k0 + lane) * job.few.k_stride;
#pragma unroll
      for (int r = 0; r < Rows; r++) {
        copy_piece<1>(k0 + lane < depth, to + r * kDepth + lane, from);
        if (r + 1 < rows) from = opaque(from + job.few.mn_stride);
      }
    };
    const int steps = (depth + kDepth - 1) / kDepth;
#pragma unroll 1
    for (int stage = 0; stage < kStages - 1; stage++) {
      if (stage < steps) copy(stage, stage);
      cp_async_commit();
    }
    int reading = 0, writing = kStages - 1;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
      cp_async_wait<kStages - 2>();
      __syncwarp();
      if (step + kStages - 1 < steps) copy(step + kStages - 1, writing);
      cp_async_commit();
      const T* const few_of_stage = stages + reading * Sizes::kStage;
      const T* const own = few_of_stage + Sizes::kFew + lane * (Sizes::kKMajor ? Sizes::kRow : 1);
      reading = reading == kStages - 1 ? 0 : reading + 1;
      writing = writing == kStages - 1 ? 0 : writing + 1;
      const int left = lane < lines ? depth - step * kDepth : 0;
      if (left >= kDepth) {
#pragma unroll
        for (int k = 0; k < kDepth; k += kV) {
          Vector b;
          if constexpr (Sizes::kKMajor) b = *reinterpret_cast<const Vector*>(own + k);
          else {
#pragma unroll
            for (int v = 0; v < kV; v++) b.element[v] = own[(k + v) * Sizes::kRow];
          }
#pragma unroll
          for (int r = 0; r < Rows; r++) {
            const Vector a = *reinterpret_cast<const Vector*>(few_of_stage + r * kDepth + k);
#pragma unroll
            for (int v = 0; v < kV; v++) sums[r] = multiply_add(a.element[v], b.element[v], sums[r]);
          }
        }
      } else {
#pragma unroll 1
        for (int k = 0; k < left; k++) {
          const T b = own[k * (Sizes::kKMajor ? 1 : Sizes::kRow)];
#pragma unroll
          for (int r = 0; r < Rows; r++) sums[r] = multiply_add(few_of_stage[r * kDepth + k], b, sums[r]);
        }
      }
    }
  }

  // Where a result stands: the few lines are rows of it, or columns.
  const int64_t row_step = job.few_are_columns ? 1 : args.n, line_step = job.few_are_columns ? args.n : 1;
  if (job.partials != nullptr) {
    if (depth == 0 || lane >= lines) return;
    T* const to =
        job.partials + ((chunk - job.first) * args.batch + batch) * args.m * args.n + (first_line + lane) * line_step;
#pragma unroll
    for (int r = 0; r < Rows; r++)
      if (r < rows) to[r * row_step] = sums[r];
    return;
  }
  __syncwarp();
#pragma unroll
  for (int r = 0; r < Rows; r++) stages[r * 32 + lane] = sums[r];
  __syncthreads();
  for (int r = warp; r < rows; r += warps) {
    const T* const value = reinterpret_cast<const T*>(memory) + r * 32 + lane;
    T total = *value;
    for (int w = 1; w < int(job.last); w++) total += value[w * Sizes::kWarp];
    const int64_t l = first_line + lane;
    if (lane < lines) store_product<T>(args, batch, job.few_are_columns ? l : r, job.few_are_columns ? r : l, total);
  }
}

}  // namespace torch_reductions::cuda::matmul
