// global_memory
// Changes: nothing came before on the GPU: one thread per point, whose sums are in memory.
// Costs:   on average a load and a store for each center, each of which waits for the one before; and that memory, one
//          accumulator per point for each digit of the number of centers.
// Gains:   the textbook's first kernel, and what it costs to add in memory: global_register differs in that alone,
//          constant_sums_in_memory in nothing but where the centers are.
// Order:   Fold(C) of Fold(D), docs/order.md.
// Needs:   7.5 and up; any layout.
// Local:   add_in_memory (1 bytes): where larger blocks of squares wait (common/fold.h), of 64 coordinates and more.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapters 4 and 5.
#include "ladder.h"
#include "points.cuh"

namespace torch_reductions::cuda::distance {
namespace {

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads)
    add_in_memory(const __grid_constant__ DistanceArgs args, Accumulator<T>* sums) {
  const int64_t i = point_of_thread();
  if (i >= args.count) return;
  Point<T, D> point[1];
  point[0].load(args, i);
  const T* center = static_cast<const T*>(args.centers);
  const WaitingInMemory<Accumulator<T>> waiting{sums + i, args.count};
  for (int64_t c = 0; c < args.centers_count; c++, center += args.dims)
    waiting.push(distances(point, args.dims, [&](int64_t d) { return factor(center[d]); }).of[0], c);
  static_cast<T*>(args.output)[i] = rounded<T>(waiting.fold(args.centers_count));
}

}  // namespace

void global_memory(const DistanceArgs& args, Context& context) {
  with_points(args, [&]<class T, class D>(std::type_identity<T>, D) {
    using A = Accumulator<T>;
    void* const sums = context.workspace(size_t(places_of(args.centers_count)) * size_t(args.count) * sizeof(A));
    launch_points(add_in_memory<T, D::value>, args, context, 1, static_cast<A*>(sums));
  });
}

}  // namespace torch_reductions::cuda::distance
