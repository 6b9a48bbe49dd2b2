// read_only_cache
// Changes: the centers stay in global memory, but are read by ld.global.nc, which relies on no kernel changing them.
// Costs:   one instruction per value, as with ordinary loads.
// Gains:   no copy and no parts: the first-level cache gives one address to all lanes at once, and lanes at
//          different addresses would not wait for one another.
// Order:   Fold(C) of Fold(D), docs/order.md.
// Needs:   7.5 and up; any layout.
// Local:   add_read_only (1 bytes): where larger blocks wait (common/fold.h), of 64 centers and more.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 5.
#include "ladder.h"
#include "points.cuh"

namespace torch_reductions::cuda::distance {
namespace {

template <class T>
__device__ __forceinline__ T load_read_only(const T* p) {
  if constexpr (sizeof(T) == 2) return {__ldg(&p->bits)};
  else return __ldg(p);
}

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads) add_read_only(const __grid_constant__ DistanceArgs args) {
  const int64_t i = point_of_thread();
  if (i >= args.count) return;
  Point<T, D> point;
  point.load(args, i);
  const T* const centers = static_cast<const T*>(args.centers);
  const Accumulator<T> total = distances_from(point, args.centers_count, args.dims,
                                              [&](int64_t k) { return factor(load_read_only(centers + k)); });
  static_cast<T*>(args.output)[i] = rounded<T>(total);
}

}  // namespace

void read_only_cache(const DistanceArgs& args, Context& context) {
  with_points(args, [&]<class T, class D>(std::type_identity<T>, D) {
    launch_points(add_read_only<T, D::value>, args, context, 1);
  });
}

}  // namespace torch_reductions::cuda::distance
