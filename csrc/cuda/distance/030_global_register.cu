// global_register
// Changes: against global_memory: the total stays in a register, and is stored once; the centers are in global memory.
// Costs:   each value of a center is an instruction that loads it, though all lanes load the same address.
// Gains:   no access to memory except for the centers, which lie in the first-level cache, and the result.
// Order:   Fold(C) of Fold(D), docs/order.md.
// Needs:   7.5 and up; any layout.
// Local:   add_in_register (1 bytes): where larger blocks wait (common/fold.h), of 64 centers and more.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 4.
#include "ladder.h"
#include "points.cuh"

namespace torch_reductions::cuda::distance {
namespace {

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads) add_in_register(const __grid_constant__ DistanceArgs args) {
  const int64_t i = point_of_thread();
  if (i >= args.count) return;
  Point<T, D> point;
  point.load(args, i);
  const T* const centers = static_cast<const T*>(args.centers);
  const Accumulator<T> total =
      distances_from(point, args.centers_count, args.dims, [&](int64_t k) { return factor(centers[k]); });
  static_cast<T*>(args.output)[i] = rounded<T>(total);
}

}  // namespace

void global_register(const DistanceArgs& args, Context& context) {
  with_points(args, [&]<class T, class D>(std::type_identity<T>, D) {
    launch_points(add_in_register<T, D::value>, args, context, 1);
  });
}

}  // namespace torch_reductions::cuda::distance
