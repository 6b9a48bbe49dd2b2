// The centers in shared memory, part after part, and the chains of P points a thread.
#pragma once
#include "points.cuh"

namespace torch_reductions::cuda {

constexpr int kStaged = 2048;  // coordinates of centers at a time

// Points first, first + kPointThreads and so on: neighbouring lanes have neighbours. The threads beyond the last point
// copy with the others, and compute the last one again.
template <class T, int D, int P>
__device__ __forceinline__ void add_staged(const DistanceArgs& args) {
  using A = Accumulator<T>;
  __shared__ __align__(16) A staged[kStaged];
  const int64_t first = int64_t(blockIdx.x) * kPointThreads * P + threadIdx.x;
  Point<T, D> points[P];
#pragma unroll
  for (int p = 0; p < P; p++) {
    const int64_t i = first + int64_t(p) * kPointThreads;
    points[p].load(args, i < args.count ? i : args.count - 1);
  }
  A totals[P] = {};
  const int64_t elements = args.centers_count * args.dims;
  const int64_t most = D > 0 ? kStaged / (D > 0 ? D : 1) * D : kStaged;  // of known dims whole centers
  int64_t dim = 0;
  for (int64_t begin = 0; begin < elements; begin += most) {
    const int n = int(min(most, elements - begin));
    if (begin > 0) __syncthreads();  // nobody reads the part before any more
    const T* const centers = static_cast<const T*>(args.centers) + begin;
    for (int k = int(threadIdx.x); k < n; k += int(kPointThreads)) staged[k] = factor(centers[k]);
    __syncthreads();
    follow<D, T>(totals, points, n, dim, args.dims, [&](int k) { return staged[k]; });
    if constexpr (D == 0) dim = (dim + n) % args.dims;
  }
#pragma unroll
  for (int p = 0; p < P; p++) {
    const int64_t i = first + int64_t(p) * kPointThreads;
    if (i < args.count) static_cast<T*>(args.output)[i] = rounded<T>(totals[p]);
  }
}

}  // namespace torch_reductions::cuda
