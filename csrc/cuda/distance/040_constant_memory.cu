// constant_memory
// Changes: the centers are copied into constant memory before the kernel.
// Costs:   a copy for each call, and a kernel for each 4 KB of centers. Each stream, and each captured graph, has 4 KB of the
//          64 of its own, so that none disturbs another's centers; beyond sixteen of them it is global memory again.
// Gains:   all lanes read one address: the constant cache gives it to the whole warp at once, and the path to memory is
//          left to the points.
// Order:   one chain from +0, centers ascending, in each its coordinates, from part to part: docs/order.md.
// Needs:   7.5 and up; any layout.
// See:     constants.h, for streams and graphs; Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014,
//          chapter 5.
#include "constants.cuh"
#include "ladder.h"

namespace torch_reductions::cuda {
namespace {

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads)
    add_constants(const __grid_constant__ DistanceArgs args, const __grid_constant__ ConstantPart part) {
  const int64_t i = point_of_thread();
  if (i >= args.count) return;
  Point<T, D> points[1];
  points[0].load(args, i);
  Accumulator<T> total[1] = {total_before<T>(part, i)};
  const auto add = [&](const T* centers) {
    const int64_t dim = D == 0 && part.begin > 0 ? part.begin % args.dims : 0;
    follow<D, T>(total, points, part.length, dim, args.dims, [&](int k) { return factor(centers[k]); });
  };
  if (part.slot >= 0) add(constants_of<T>(part));
  else add(static_cast<const T*>(args.centers) + part.begin);
  store_total<T>(args, part, i, total[0]);
}

}  // namespace

void constant_memory(const DistanceArgs& args, Context& context) {
  each_constant_part(bank, args, context, [](const DistanceArgs& args, Context& context, const ConstantPart& part) {
    with_points(
        args, [&]<class T, class D>(Tag<T>, D) { launch_points(add_constants<T, D::value>, args, context, 1, part); });
  });
}

}  // namespace torch_reductions::cuda
