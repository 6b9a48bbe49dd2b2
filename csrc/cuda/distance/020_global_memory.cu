// global_memory
// Changes: nothing came before on the GPU: a thread has a point, and its total lies in the result in memory.
// Costs:   a load and a store of the total for each center, each of which waits for the one before; half precision, which
//          would be rounded each time, takes as many floats of workspace.
// Gains:   the textbook's first kernel, and what it costs to add in memory.
// Order:   one chain from +0, centers ascending, in each its coordinates: docs/order.md.
// Needs:   7.5 and up; any layout.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapters 4 and 5.
#include "ladder.h"
#include "points.cuh"

namespace torch_reductions::cuda {
namespace {

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads)
    add_in_memory(const __grid_constant__ DistanceArgs args, Accumulator<T>* totals) {
  const int64_t i = point_of_thread();
  if (i >= args.count) return;
  Point<T, D> points[1];
  points[0].load(args, i);
  const T* center = static_cast<const T*>(args.centers);
  totals[i] = 0;
  for (int64_t c = 0; c < args.centers_count; c++, center += args.dims) {
    Accumulator<T>* const in_memory = as_one(totals + i);  // or the compiler would keep the total in a register
    Accumulator<T> total[1] = {*in_memory};
    follow<D, T>(total, points, args.dims, 0, args.dims, [&](int64_t k) { return factor(center[k]); });
    *in_memory = total[0];
  }
  if constexpr (sizeof(T) == 2) static_cast<T*>(args.output)[i] = rounded<T>(totals[i]);
}

}  // namespace

void global_memory(const DistanceArgs& args, Context& context) {
  with_points(args, [&]<class T, class D>(Tag<T>, D) {
    using A = Accumulator<T>;
    void* const totals = sizeof(T) == 2 ? context.workspace(size_t(args.count) * sizeof(A)) : args.output;
    launch_points(add_in_memory<T, D::value>, args, context, 1, static_cast<A*>(totals));
  });
}

}  // namespace torch_reductions::cuda
