// The vector code of `ordered`: neighbouring points lie side by side in vectors, one coordinate after the other, so that
// each value of a center serves a whole strip. Compiled once for each kind of processor.
#pragma once
#include "../matmul/ordered_steps.h"
#include "ordered.h"

namespace torch_reductions::cpu {
namespace {

constexpr int kGroup = 8;  // vectors whose totals grow at the same time: enough to hide the latency of an addition

// The coordinates of points [first, first + count), kPointStrip apart; zeros behind the last point.
template <class T, class A>
void gather(const DistanceArgs& args, int64_t first, int64_t count, A* coordinates) {
  for (int64_t d = 0; d < args.dims; d++, coordinates += kPointStrip) {
    if (args.points) {
      const T* const points = static_cast<const T*>(args.points);
      widen(points + first * args.point_stride + d * args.dim_stride, args.point_stride, count, coordinates);
    } else {
      for (int64_t i = 0; i < count; i++)
        coordinates[i] = A(d == 0 ? (first + i) % args.width : (first + i) / args.width);
    }
    for (int64_t i = count; i < kPointStrip; i++) coordinates[i] = 0;
  }
}

// The chains of kGroup vectors of points.
template <class A>
ALWAYS_INLINE void follow(const DistanceArgs& args, const A* centers, const A* coordinates, A* sums) {
  constexpr int W = kLanes<A>;
  Vector<A> totals[kGroup] = {};
  for (int64_t c = 0; c < args.centers_count; c++) {
    const A* x = coordinates;
    for (int64_t d = 0; d < args.dims; d++, x += kPointStrip) {
      const Vector<A> center = splat(*centers++);
      for (int v = 0; v < kGroup; v++) {
        const Vector<A> difference = load(x + v * W) - center;
        totals[v] = fused(difference, difference, totals[v]);
      }
    }
  }
  for (int v = 0; v < kGroup; v++) store(sums + v * W, totals[v]);
}

template <class T>
void add_distances(const DistanceArgs& args, const PointStrips& strips) {
  using A = Accumulator<T>;
  static_assert(kPointStrip % (kGroup * kLanes<A>) == 0);
  A* const coordinates = static_cast<A*>(strips.coordinates);
  for (int64_t done = 0; done < strips.count; done += kPointStrip) {
    const int64_t first = strips.first + done, left = strips.count - done;
    const int64_t count = left < kPointStrip ? left : kPointStrip;
    gather<T>(args, first, count, coordinates);
    A sums[kPointStrip];
    for (int64_t i = 0; i < count; i += kGroup * kLanes<A>)
      follow(args, static_cast<const A*>(strips.centers), coordinates + i, sums + i);
    narrow(sums, count, static_cast<T*>(args.output) + first, 1);
  }
}

constexpr DistanceKernels make_distance_kernels() {
  DistanceKernels kernels{};
  kernels.add[int(Dtype::float16)] = add_distances<Half>;
  kernels.add[int(Dtype::bfloat16)] = add_distances<BFloat16>;
  kernels.add[int(Dtype::float32)] = add_distances<float>;
  kernels.add[int(Dtype::float64)] = add_distances<double>;
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu
