// constant_memory
// Changes: against global_register: the centers are copied into constant memory before the kernel. Against
//          constant_sums_in_memory: the total stays in a register.
// Costs:   a copy and a kernel for each part of the centers, a power of two of them in at most 4 KB. Each stream, and
//          each captured graph, has 4 KB of the 64 of its own, so that none disturbs another's centers; beyond sixteen
//          of them it is global memory again.
// Gains:   all lanes read one address: the constant cache gives it to the whole warp at once, and the path to memory is
//          left to the points. With 2^20 points and 20 centers the copy takes what an H100's kernel gains over
//          global_register.
// Order:   Fold(C) of Fold(D), docs/order.md: each part but the last is one block.
// Needs:   7.5 and up; any layout.
// Local:   add_constants (1 bytes): where larger blocks wait (common/fold.h), of 64 centers and more.
// See:     constants.h, for streams and graphs; Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014,
//          chapter 5.
#include "constants.cuh"
#include "ladder.h"

namespace torch_reductions::cuda::distance {
namespace {

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads)
    add_constants(const __grid_constant__ DistanceArgs args, const __grid_constant__ ConstantPart part) {
  const int64_t i = point_of_thread();
  if (i >= args.count) return;
  Point<T, D> point;
  point.load(args, i);
  const Accumulator<T> before = total_before<T>(args, part, i);
  const auto total_of = [&](const T* centers) {
    return distances_from(point, part.length, args.dims, [&](int64_t k) { return factor(centers[k]); }, before);
  };
  const T* const in_memory = static_cast<const T*>(args.centers) + part.begin * args.dims;
  store_part<T>(args, part, i, part.slot >= 0 ? total_of(constants_of<T>(part)) : total_of(in_memory));
}

}  // namespace

void constant_memory(const DistanceArgs& args, Context& context) {
  each_constant_part(bank, args, context, [](const DistanceArgs& args, Context& context, const ConstantPart& part) {
    with_points(args, [&]<class T, class D>(std::type_identity<T>, D) {
      launch_points(add_constants<T, D::value>, args, context, 1, part);
    });
  });
}

}  // namespace torch_reductions::cuda::distance
