// Products of few lines by many, with a short k, where reading the many takes the time: a thread computes one of them by
// all of the few. Where neighbours in memory are elements of a line, a block's lines come by way of shared memory; and so
// do results on their way out, where those of a line are neighbours.
#pragma once
#include "skinny.cuh"

namespace torch_reductions::cuda::matmul {

inline constexpr int kShortLines = 256;  // the threads of a block

// In elements of shared memory: k of the few, each with all of them; then a block's lines, with an odd distance, so that
// lanes that read their own ones meet in no bank; and later results in their place.
struct ShortLinesSizes {
  int of_few, distance;
  HOST_DEVICE constexpr ShortLinesSizes(int k, bool staged)
      : of_few(kMostFew * k), distance(staged ? k | 1 : kMostFew) {}
  HOST_DEVICE constexpr int elements() const {
    return of_few + kShortLines * (distance > kMostFew ? distance : kMostFew);
  }
};

template <class T, bool kKMajor>
__global__ void __launch_bounds__(kShortLines) multiply_short_lines(const __grid_constant__ SkinnyJob<T> job) {
  constexpr int kV = 16 / int(sizeof(T));
  using Vector = AlignedVector<T, kV>;
  const MatmulArgs& args = job.args;
  const int thread = int(threadIdx.x), few = int(job.few.lines), k = int(args.k);
  const ShortLinesSizes sizes(k, kKMajor);
  const unsigned group = blockIdx.x % job.line_groups;
  const int64_t batch = blockIdx.x / job.line_groups, first_line = int64_t(group) * kShortLines;
  const int lines = int(min(job.many.lines - first_line, int64_t(kShortLines)));
  T* const few_of_k = reinterpret_cast<T*>(memory);
  T* const staged = few_of_k + sizes.of_few;

  if constexpr (kKMajor) {
    const int step = kShortLines / k, rest = kShortLines % k;
    int line = thread / k, at = thread % k;
    while (line < lines) {
      cp_async<sizeof(T)>(staged + line * sizes.distance + at, job.many.at(batch, first_line + line, at));
      line += step, at += rest;
      if (at >= k) at -= k, line++;
    }
  }
  for (int i = thread; i < sizes.of_few; i += kShortLines) {
    const int at = i / kMostFew, r = i % kMostFew;
    if (r < few) cp_async<sizeof(T)>(few_of_k + i, job.few.at(batch, r, at));
    else few_of_k[i] = T(0);
  }
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();

  T sums[kMostFew];
#pragma unroll
  for (int r = 0; r < kMostFew; r++) sums[r] = 0;
  const int own = min(thread, lines - 1);
  const T* from = kKMajor ? staged + own * sizes.distance : job.many.at(batch, first_line + own, 0);
  const int64_t next = kKMajor ? 1 : job.many.k_stride;
#pragma unroll 8
  for (int at = 0; at < k; at++, from += next) {
    const T x = *from;
#pragma unroll
    for (int v = 0; v < kMostFew / kV; v++) {
      const Vector y = reinterpret_cast<const Vector*>(few_of_k + at * kMostFew)[v];
#pragma unroll
      for (int e = 0; e < kV; e++) sums[v * kV + e] = multiply_add(y.element[e], x, sums[v * kV + e]);
    }
  }

  if (!job.few_are_columns) {
#pragma unroll
    for (int r = 0; r < kMostFew; r++)
      if (r < few && thread < lines) store_product<T>(args, batch, r, first_line + thread, sums[r]);
    return;
  }
  __syncthreads();  // all have read their lines
#pragma unroll
  for (int r = 0; r < kMostFew; r++)
    if (r < few) staged[thread * few + r] = sums[r];
  __syncthreads();
  const int64_t first = (batch * args.m + first_line) * args.n;
  for (int i = thread; i < lines * few; i += kShortLines) store_at<T>(args, first + i, staged[i]);
}

}  // namespace torch_reductions::cuda::matmul
