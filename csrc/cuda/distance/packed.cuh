// Packed points and few centers: each thread has P points that follow one another, which a few instructions load.
// Local:   add_packed (16 bytes): where larger blocks wait (common/fold.h), of 64 centers and more.
#pragma once
#include "staged.cuh"

namespace torch_reductions::cuda::distance {

// The elements of a vector: as many of 16 bytes as `elements` is a multiple of.
template <class T, int elements, int most = 16 / int(sizeof(T))>
constexpr int kVector = (elements & -elements) < most ? elements & -elements : most;

// Points first, first + 1 and so on; beyond the last one that one again.
template <class T, int D, int P>
__device__ __forceinline__ void load_vectors(Point<T, D> (&points)[P], const DistanceArgs& args, int64_t first) {
  if (args.count - first < P) {
#pragma unroll
    for (int p = 0; p < P; p++) points[p].load(args, min(first + p, args.count - 1));
    return;
  }
  const T* const from_first = static_cast<const T*>(args.points) + first * D;
  constexpr int N = kVector<T, P * D>;
#pragma unroll
  for (int k = 0; k < P * D; k += N) {
    const auto vector = *reinterpret_cast<const AlignedVector<T, N>*>(from_first + k);
#pragma unroll
    for (int e = 0; e < N; e++) points[(k + e) / D].x[(k + e) % D] = factor(vector.element[e]);
  }
}

template <class T, int P>
__device__ __forceinline__ void store_vectors(const DistanceArgs& args, int64_t first,
                                              const Sums<Accumulator<T>, P>& totals) {
  T* const from_first = static_cast<T*>(args.output) + first;
  if (args.count - first < P) {
#pragma unroll
    for (int p = 0; p < P; p++) {
      if (p < args.count - first) from_first[p] = rounded<T>(totals.of[p]);
    }
    return;
  }
  constexpr int N = kVector<T, P>;
#pragma unroll
  for (int k = 0; k < P; k += N) {
    AlignedVector<T, N> vector;
#pragma unroll
    for (int e = 0; e < N; e++) vector.element[e] = rounded<T>(totals.of[k + e]);
    *reinterpret_cast<AlignedVector<T, N>*>(from_first + k) = vector;
  }
}

// All coordinates of all points follow one another, from an address that vectors may begin at, and the centers fit into
// shared memory.
inline bool is_packed(const DistanceArgs& args) {
  const uintptr_t places = reinterpret_cast<uintptr_t>(args.points) | reinterpret_cast<uintptr_t>(args.output);
  return args.points != nullptr && args.point_stride == args.dims && args.dim_stride == 1 && places % 16 == 0 &&
         args.centers_count <= kStaged / args.dims;
}

template <class T, int D, int P>
__global__ void __launch_bounds__(kPointThreads) add_packed(const __grid_constant__ DistanceArgs args) {
  using A = Accumulator<T>;
  __shared__ __align__(16) A staged[kStaged];
  const int64_t first = (int64_t(blockIdx.x) * kPointThreads + threadIdx.x) * P;
  const T* const from = static_cast<const T*>(args.centers);
  const int centers = int(args.centers_count), thread = int(threadIdx.x);
  A mine = 0;
  if (thread < centers * D) mine = factor(from[thread]);  // first, or they would come behind the points of all blocks
  Point<T, D> points[P];
  load_vectors(points, args, first);
  if (thread < centers * D) staged[thread] = mine;
#pragma unroll 1
  for (int k = thread + int(kPointThreads); k < centers * D; k += int(kPointThreads)) staged[k] = factor(from[k]);
  __syncthreads();
  store_vectors<T>(args, first, fold<Sums<A, P>, kCentersUnit<D>>(centers, [&](int c) {
                     return distances(points, D, [&](int d) { return staged[c * D + d]; });
                   }));
}

}  // namespace torch_reductions::cuda::distance
