// What the rungs of distances have in common: the points, the chain of operations, and a thread for each point.
#pragma once
#include "../../common/ceil_div.h"
#include "../matmul/elements.cuh"

namespace torch_reductions::cuda {

constexpr unsigned kPointThreads = 256;  // of a block

// The coordinates of a point: D of them in registers; of any number, D = 0, in memory.
template <class T, int D>
struct Point {
  Accumulator<T> x[D];

  __device__ __forceinline__ void load(const DistanceArgs& args, int64_t i) {
    if (D == 2 && args.points == nullptr) {             // a pixel
      const bool narrow = (i | args.width) >> 32 == 0;  // the division of 64 bits takes several times as long
      const int64_t row = narrow ? int64_t(uint32_t(i) / uint32_t(args.width)) : i / args.width;
      x[0] = Accumulator<T>(i - row * args.width), x[D - 1] = Accumulator<T>(row);
      return;
    }
    const T* p = static_cast<const T*>(args.points) + i * args.point_stride;
#pragma unroll
    for (int d = 0; d < D; d++) x[d] = factor(p[d * args.dim_stride]);
  }
  __device__ __forceinline__ Accumulator<T> operator[](int64_t d) const { return x[d]; }
};
template <class T>
struct Point<T, 0> {
  const T* first;
  int64_t stride;

  __device__ __forceinline__ void load(const DistanceArgs& args, int64_t i) {
    first = static_cast<const T*>(args.points) + i * args.point_stride, stride = args.dim_stride;
  }
  __device__ __forceinline__ Accumulator<T> operator[](int64_t d) const { return factor(first[d * stride]); }
};

// One step of the chain.
template <class A>
__device__ __forceinline__ A add_square(A total, A coordinate, A center) {
  const A difference = coordinate - center;
  return multiply_add(difference, difference, total);
}

// The chains of P points go on by the n coordinates of centers that element(k) gives, in the order of memory: of whole
// centers, or, where D is 0, of a part of them that begins at coordinate `dim`.
template <int D, class T, int P, class Index, class Element>
__device__ __forceinline__ void follow(Accumulator<T> (&totals)[P], const Point<T, D> (&points)[P], Index n,
                                       int64_t dim, int64_t dims, const Element& element) {
  if constexpr (D > 0) {
#pragma unroll 4
    for (Index k = 0; k < n; k += D) {
#pragma unroll
      for (int d = 0; d < D; d++) {
        const Accumulator<T> center = element(k + d);
#pragma unroll
        for (int p = 0; p < P; p++) totals[p] = add_square(totals[p], points[p][d], center);
      }
    }
  } else {
    for (Index k = 0; k < n; k++) {
      const Accumulator<T> center = element(k);
#pragma unroll
      for (int p = 0; p < P; p++) totals[p] = add_square(totals[p], points[p][dim], center);
      dim = dim + 1 == dims ? 0 : dim + 1;
    }
  }
}

// The point of a thread, one a thread; beyond the last point it has nothing to do.
__device__ __forceinline__ int64_t point_of_thread() { return int64_t(blockIdx.x) * kPointThreads + threadIdx.x; }

// body(Tag<T>(), D) with the type of the points, and the number of their coordinates as a constant where it is 2 or 3.
template <class Body>
void with_points(const DistanceArgs& args, Body&& body) {
  with_storage(args.dtype, [&]<class T>(Tag<T> storage) {
    if constexpr (!std::is_integral_v<T>) {
      if (args.dims == 2) body(storage, std::integral_constant<int, 2>());
      else if (args.dims == 3) body(storage, std::integral_constant<int, 3>());
      else body(storage, std::integral_constant<int, 0>());
    }
  });
}

// A thread for each P points.
template <class... Parameters, class... Arguments>
void launch_points(void (*kernel)(DistanceArgs, Parameters...), const DistanceArgs& args, Context& context, int points,
                   Arguments... arguments) {
  launch(kernel, ceil_div(args.count, int64_t(kPointThreads) * points), kPointThreads, 0, context.stream, args,
         arguments...);
}

}  // namespace torch_reductions::cuda
