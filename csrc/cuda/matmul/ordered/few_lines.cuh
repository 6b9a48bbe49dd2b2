// Products with few lines on one side, where warps that copy for themselves would be too few or too slow: a block
// computes 32 lines of the other side by the few over one chunk of k. All its threads copy, with as much of a chunk in
// flight as shared memory holds for all blocks that share it; a warp multiplies `Rows` of the few lines.
#pragma once
#include "skinny.cuh"

namespace torch_reductions::cuda::matmul {

inline constexpr int kFewDepth = 128, kFewStages = kProductChunk / kFewDepth;
inline constexpr int kFewThreads = 256;  // they copy, also those of warps without rows

// A stage: 32 of the many lines, as they lie in memory, and the few, whose k is the last index.
template <class T, bool kKMajor>
struct FewSizes {
  static constexpr int kVector = 16 / int(sizeof(T));
  static constexpr int kRow = kKMajor ? kFewDepth + kVector : 32;  // padded, so that lanes' vectors lie in other banks
  static constexpr int kCopied = kKMajor ? 32 : kFewDepth, kMany = kCopied * kRow;  // rows of the many lines' panel
  static HOST_DEVICE int of_stage(int few) { return kMany + few * kFewDepth; }      // elements
};

template <class T, int Rows, bool kKMajor>
__global__ void __launch_bounds__(kFewThreads, 1)
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

  // Threads are neighbours along k, but along the many lines where these are neighbours in memory: there a warp has an
  // element of k. What a thread copies lies at one distance from the last, so that an address is an addition. What lies
  // behind the end is neither copied nor used.
  const int thread = int(threadIdx.x), line = thread / kFewDepth, k_of_thread = thread % kFewDepth;
  const int many_k = kKMajor ? k_of_thread : warp, first = kKMajor ? line : warp;
  constexpr int kRounds = kFewThreads / (kKMajor ? kFewDepth : 32), kFewRounds = kFewThreads / kFewDepth;
  const int64_t many_step = kRounds * (kKMajor ? job.many.mn_stride : job.many.k_stride);
  const int64_t few_step = kFewRounds * job.few.mn_stride;
  const T* many = job.many.at(batch, first_line + (kKMajor ? line : lane), first_k + many_k);
  const T* rows = job.few.at(batch, line, first_k + k_of_thread);
  const auto copy = [&](T* stage, int left) {
    T* to = stage + (kKMajor ? line * kRow + many_k : thread);
    const T* from = many;
    if (kKMajor ? lines == 32 && left >= kFewDepth : lane < lines && left >= kFewDepth) {
#pragma unroll
      for (int i = 0; i < Sizes::kCopied; i += kRounds, from = opaque(from + many_step))
        cp_async<sizeof(T)>(to + i * kRow, from);
    } else if (kKMajor ? many_k < left : lane < lines) {
      const int count = kKMajor ? lines : min(left, kFewDepth);
#pragma unroll 1
      for (int i = first; i < count; i += kRounds, to += kRounds * kRow, from += many_step)
        cp_async<sizeof(T)>(to, from);
    }
    if (k_of_thread < left) {
      to = stage + Sizes::kMany + thread, from = rows;
#pragma unroll 4
      for (int i = line; i < few; i += kFewRounds, to += kFewThreads, from += few_step) cp_async<sizeof(T)>(to, from);
    }
    many += kFewDepth * job.many.k_stride;
    rows += kFewDepth * job.few.k_stride;
  };
  const int stage_size = Sizes::of_stage(few);
#pragma unroll 1
  for (int step = 0; step < kFewStages; step++) {  // a group each, so that kFewStages - 1 are those behind the next one
    if (step < stages && step < steps) copy(buffers + step * stage_size, depth - step * kFewDepth);
    cp_async_commit();
  }

  T sums[Rows];
#pragma unroll
  for (int r = 0; r < Rows; r++) sums[r] = 0;
  const int first_row = warp * Rows;
  int slot = 0;
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    if (step >= stages) cp_async_wait<0>();
    else cp_async_wait<kFewStages - 1>();
    __syncthreads();
    T* const stage = buffers + slot * stage_size;
    slot = slot == stages - 1 ? 0 : slot + 1;
    const T* const own = stage + lane * (kKMajor ? kRow : 1);
    const T* row[Rows];
#pragma unroll
    for (int r = 0; r < Rows; r++) row[r] = stage + Sizes::kMany + min(first_row + r, few - 1) * kFewDepth;
    const int left = min(depth - step * kFewDepth, kFewDepth);
    if (first_row < few && lane < lines) {
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
        for (int r = 0; r < Rows; r++) {
          const Vector a = *reinterpret_cast<const Vector*>(row[r] + k);
#pragma unroll
          for (int v = 0; v < kV; v++) sums[r] = multiply_add(a.element[v], b.element[v], sums[r]);
        }
      }
#pragma unroll 1
      for (; k < left; k++)
#pragma unroll
        for (int r = 0; r < Rows; r++) sums[r] = multiply_add(row[r][k], own[k * (kKMajor ? 1 : kRow)], sums[r]);
    }
    if (step + stages < steps) {  // whose stage this was
      __syncthreads();
      copy(stage, depth - (step + stages) * kFewDepth);
    }
    cp_async_commit();
  }

  // Where a result stands: the few lines are rows of it, or columns.
  if (lane >= lines) return;
  const int64_t row_step = job.few_are_columns ? 1 : args.n, line_step = job.few_are_columns ? args.n : 1;
#pragma unroll
  for (int r = 0; r < Rows; r++) {
    const int64_t l = first_line + lane, own = first_row + r;
    if (own >= few) continue;
    if (job.partials != nullptr)
      job.partials[((chunk - job.first) * args.batch + batch) * args.m * args.n + l * line_step + own * row_step] =
          sums[r];
    else store_product<T>(args, batch, job.few_are_columns ? l : own, job.few_are_columns ? own : l, sums[r]);
  }
}

}  // namespace torch_reductions::cuda::matmul
