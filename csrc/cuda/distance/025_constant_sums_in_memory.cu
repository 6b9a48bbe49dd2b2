// constant_sums_in_memory
// Changes: the centers are copied into constant memory before the kernel; the sums stay in global memory. Nothing else
//          differs from global_memory: this is the textbook's pair of programs.
// Costs:   a copy of the centers before each kernel; and the loads and stores of the sums, as in global_memory.
// Gains:   all lanes read one address, which the constant cache gives to the whole warp at once. The path to global
//          memory is left to the points and the sums. An H100's kernel gains a little, the call with its copy loses
//          (docs/ladder.md, Book and machine).
// Order:   Fold(C) of Fold(D), docs/order.md.
// Needs:   7.5 and up; any layout.
// Local:   add_constants_in_memory (1 bytes): where larger blocks of squares wait (common/fold.h), of 64 coordinates
//          and more.
// See:     constants.h, for the slots of 4 KB, streams and graphs; Cheng, Grossman and McKercher, Professional CUDA C
//          Programming, 2014, chapter 5.
#include "constants.cuh"
#include "ladder.h"

namespace torch_reductions::cuda::distance {
namespace {

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads)
    add_constants_in_memory(const __grid_constant__ DistanceArgs args, const __grid_constant__ ConstantPart part) {
  const int64_t i = point_of_thread();
  if (i >= args.count) return;
  Point<T, D> point[1];
  point[0].load(args, i);
  const auto waiting = waiting_of<T>(args, part, i);
  const auto push_all = [&](const T* center) {
    for (int64_t c = part.begin; c < part.begin + part.length; c++, center += args.dims)
      waiting.push(distances(point, args.dims, [&](int64_t d) { return factor(center[d]); }).of[0], c);
  };
  if (part.slot >= 0) push_all(constants_of<T>(part));
  else push_all(static_cast<const T*>(args.centers) + part.begin * args.dims);
  if (part.begin + part.length == args.centers_count)
    static_cast<T*>(args.output)[i] = rounded<T>(waiting.fold(args.centers_count));
}

}  // namespace

void constant_sums_in_memory(const DistanceArgs& args, Context& context) {
  each_constant_part(
      bank, args, context,
      [](const DistanceArgs& args, Context& context, const ConstantPart& part) {
        with_points(args, [&]<class T, class D>(std::type_identity<T>, D) {
          launch_points(add_constants_in_memory<T, D::value>, args, context, 1, part);
        });
      },
      Waiting::centers);
}

}  // namespace torch_reductions::cuda::distance
