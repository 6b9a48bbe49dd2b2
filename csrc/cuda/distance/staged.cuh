// The centers in shared memory, part after part, and P points per thread.
#pragma once
#include "points.cuh"

namespace torch_reductions::cuda::distance {

constexpr int kStaged = 2048;  // coordinates of centers at a time; a center of more stays in global memory

// A thread's P points are kPointThreads apart, so that neighbouring lanes have neighbours. The threads beyond the last
// point copy with the others, and compute the last point again.
template <class T, int D, int P>
__device__ __forceinline__ void add_staged(const DistanceArgs& args) {
  using A = Accumulator<T>;
  __shared__ __align__(16) A staged[kStaged];
  const int64_t first = int64_t(blockIdx.x) * kPointThreads * P + threadIdx.x;
  Point<T, D> points[P];
#pragma unroll
  for (int p = 0; p < P; p++) {
    const int64_t i = first + p * int(kPointThreads);
    points[p].load(args, i < args.count ? i : args.count - 1);
  }
  constexpr int kUnit = kCentersUnit<D>;
  const int64_t dims = D > 0 ? D : args.dims;
  Sums<A, P> far[kFar];
  Fold<Sums<A, P>, kUnit> sums(far);
  Sums<A, P> totals;
  if (const int fit = dims > 0 && dims <= kStaged ? kStaged / int(dims) / kUnit * kUnit : 0; fit > 0) {
    const auto from = [&](int c) {
      return distances(points, int(dims), [&](int d) { return staged[c * int(dims) + d]; });
    };
    const T* centers = static_cast<const T*>(args.centers);
    int n = 0;  // centers of the part
    for (int64_t left = args.centers_count; left > 0; left -= n, centers += n * int(dims)) {
      if (left < args.centers_count) __syncthreads();  // no thread reads the part before any more
      n = left < fit ? int(left) : fit;
#pragma unroll 1
      for (int k = int(threadIdx.x); k < n * int(dims); k += int(kPointThreads)) staged[k] = factor(centers[k]);
      __syncthreads();
      sums.add(n / kUnit, from);
    }
    totals = sums.total(n % kUnit, [&](int c) { return from(n / kUnit * kUnit + c); });
  } else {
    const T* const centers = static_cast<const T*>(args.centers);
    totals = fold<Sums<A, P>, kUnit>(args.centers_count, [&](int64_t c) {
      return distances(points, dims, [&](int64_t d) { return factor(centers[c * dims + d]); });
    });
  }
#pragma unroll
  for (int p = 0; p < P; p++) {
    const int64_t i = first + p * int(kPointThreads);
    if (i < args.count) static_cast<T*>(args.output)[i] = rounded<T>(totals.of[p]);
  }
}

}  // namespace torch_reductions::cuda::distance
