// What the rungs of distances have in common: the points, the order of operations, and one thread per point.
#pragma once
#include "../../common/args.h"
#include "../../common/ceil_div.h"
#include "../../common/fold.h"
#include "../primitives/arithmetic.cuh"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::distance {

constexpr unsigned kPointThreads = 128;  // of a block
constexpr int kDimsUnit = 16;            // coordinates whose squares are added at once

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

// Of P points side by side: distances, or sums of them.
template <class A, int P>
struct Sums {
  A of[P];

  __device__ __forceinline__ Sums operator+(const Sums& right) const {
    Sums sum;
#pragma unroll
    for (int p = 0; p < P; p++) sum.of[p] = of[p] + right.of[p];
    return sum;
  }
};

// The squares of P points' coordinate d less that of a center.
template <int D, class T, int P>
__device__ __forceinline__ Sums<Accumulator<T>, P> squares(const Point<T, D> (&points)[P], int64_t d,
                                                           Accumulator<T> center) {
  Sums<Accumulator<T>, P> squares;
#pragma unroll
  for (int p = 0; p < P; p++) {
    const Accumulator<T> difference = points[p][d] - center;
    squares.of[p] = difference * difference;
  }
  return squares;
}

// The squared distances of P points from one center, whose coordinates element(d) gives: Fold(dims) of the squares.
template <int D, class T, int P, class Index, class Element>
__device__ __forceinline__ Sums<Accumulator<T>, P> distances(const Point<T, D> (&points)[P], Index dims,
                                                             const Element& element) {
  const auto square = [&](Index d) { return squares(points, d, element(d)); };
  if constexpr (D == 2) return square(0) + square(1);
  else if constexpr (D == 3) return square(0) + square(1) + square(2);
  else return fold<Sums<Accumulator<T>, P>, kDimsUnit>(dims, square);
}

// Centers at once; with many coordinates these are unrolled instead.
template <int D>
inline constexpr int kCentersUnit = D > 0 ? 16 : 1;

// The total of a thread's one point: Fold(n) of its distances from centers in the order of memory, behind `before`.
template <int D, class T, class Index, class Element>
__device__ __forceinline__ Accumulator<T> distances_from(const Point<T, D>& point, Index n, Index dims,
                                                         const Element& element, Accumulator<T> before = 0) {
  const Point<T, D> points[1] = {point};
  const Index pitch = D > 0 ? D : dims;
  const auto from = [&](Index c) { return distances(points, dims, [&](Index d) { return element(c * pitch + d); }); };
  return fold<Sums<Accumulator<T>, 1>, kCentersUnit<D>>(n, from, {before}).of[0];
}

// The blocks of a point that are kept in memory, as Waiting of common/fold.h does: one array of all points for each
// digit.
template <class A>
struct WaitingInMemory {
  A* first;  // the point's slot in the first array
  int64_t points;

  // The value of block `index`.
  __device__ __forceinline__ void push(A value, int64_t index) const {
    A* slot = first;
    for (; index & 1; index >>= 1, slot += points) value = *slot + value;
    *slot = value;
  }
  // Those of `count` blocks from left to right; 0 is added to the first.
  __device__ __forceinline__ A fold(int64_t count) const {
    A total = 0;
    for (int level = 63 - __clzll(count); level >= 0; level--) {
      if (count >> level & 1) total = total + first[level * points];
    }
    return total;
  }
};

// The point of a thread; beyond the last point the thread has nothing to do.
__device__ __forceinline__ int64_t point_of_thread() { return int64_t(blockIdx.x) * kPointThreads + threadIdx.x; }

// body(std::type_identity<T>(), D) with the type of the points, and the number of their coordinates as a constant where
// it is 2 or 3.
template <class Body>
void with_points(const DistanceArgs& args, Body&& body) {
  with_storage(args.dtype, [&]<class T>(std::type_identity<T> storage) {
    if constexpr (!std::is_integral_v<T>) {
      if (args.dims == 2) body(storage, std::integral_constant<int, 2>());
      else if (args.dims == 3) body(storage, std::integral_constant<int, 3>());
      else body(storage, std::integral_constant<int, 0>());
    }
  });
}

// One thread per P points.
template <class... Parameters, class... Arguments>
void launch_points(void (*kernel)(DistanceArgs, Parameters...), const DistanceArgs& args, Context& context, int points,
                   Arguments... arguments) {
  launch(kernel, ceil_div(args.count, int64_t(kPointThreads) * points), kPointThreads, 0, context.stream, args,
         arguments...);
}

}  // namespace torch_reductions::cuda::distance
