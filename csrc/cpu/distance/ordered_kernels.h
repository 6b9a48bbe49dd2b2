// The vector code of `ordered`: the lanes of a vector are neighbouring points, and there is one vector per coordinate,
// so that each value of a center serves a whole strip. Each ordered_*.cpp compiles it for one processor.
#pragma once
#include "../../common/fold.h"
#include "../vector.h"
#include "ordered.h"

namespace torch_reductions::cpu::distance {
namespace {

constexpr int kGroupVectors = 4;  // vectors at the same time: enough to hide the latency of an addition

// Distances of a group of neighbouring points from a center, or sums of them.
template <class A>
struct PointGroup {
  Vector<A> of[kGroupVectors];

  ALWAYS_INLINE PointGroup operator+(const PointGroup& right) const {
    PointGroup sum;
    for (int v = 0; v < kGroupVectors; v++) sum.of[v] = of[v] + right.of[v];
    return sum;
  }
};

// Copies the coordinates of points [first, first + count), one row of kPointStrip per dim, with zeros behind the last
// point.
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

// For points of D coordinates, or of any number of them where D is 0.
template <int D, class A>
ALWAYS_INLINE void add_group(const DistanceArgs& args, const A* centers, const A* coordinates, A* sums) {
  constexpr int W = kLanes<A>, kUnit = D > 0 ? 4 : 1;
  const int64_t dims = D > 0 ? D : args.dims;
  const PointGroup<A> totals = fold<PointGroup<A>, kUnit>(args.centers_count, [&](int64_t c) {
    const A* const center = centers + c * dims;
    const auto squares = [&](int64_t d) {
      const Vector<A> coordinate = splat(center[d]);
      PointGroup<A> squares;
      for (int v = 0; v < kGroupVectors; v++) {
        const Vector<A> difference = load(coordinates + d * kPointStrip + v * W) - coordinate;
        squares.of[v] = difference * difference;
      }
      return squares;
    };
    if constexpr (D == 2) return squares(0) + squares(1);
    else if constexpr (D == 3) return squares(0) + squares(1) + squares(2);
    else return fold<PointGroup<A>, 4>(dims, squares);
  });
  for (int v = 0; v < kGroupVectors; v++) store(sums + v * W, totals.of[v]);
}

template <class T>
void add_distances(const DistanceArgs& args, const PointStrips& strips) {
  using A = Accumulator<T>;
  static_assert(kPointStrip % (kGroupVectors * kLanes<A>) == 0);
  A* const coordinates = static_cast<A*>(strips.coordinates);
  for (int64_t done = 0; done < strips.count; done += kPointStrip) {
    const int64_t first = strips.first + done, left = strips.count - done;
    const int64_t count = left < kPointStrip ? left : kPointStrip;
    gather<T>(args, first, count, coordinates);
    A sums[kPointStrip];
    for (int64_t i = 0; i < count; i += kGroupVectors * kLanes<A>) {
      const A* const centers = static_cast<const A*>(strips.centers);
      if (args.dims == 2) add_group<2>(args, centers, coordinates + i, sums + i);
      else if (args.dims == 3) add_group<3>(args, centers, coordinates + i, sums + i);
      else add_group<0>(args, centers, coordinates + i, sums + i);
    }
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
}  // namespace torch_reductions::cpu::distance
