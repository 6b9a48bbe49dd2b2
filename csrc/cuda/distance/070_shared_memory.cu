// shared_memory
// Changes: a block copies the centers into its shared memory, 2048 coordinates at a time, and its threads read them
//          there.
// Costs:   one copy per block, and two barriers per part.
// Gains:   all lanes read one address, which shared memory gives to the whole warp at once; no limit on the centers,
//          nothing that streams or graphs share; half precision is converted once per block.
// Order:   Fold(C) of Fold(D), docs/order.md.
// Needs:   7.5 and up; any layout.
// Local:   add_shared (12 bytes): where larger blocks wait (common/fold.h), of 64 centers and more; a few spilled
//          registers.
// See:     staged.cuh; Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 5.
#include "ladder.h"
#include "staged.cuh"

namespace torch_reductions::cuda::distance {
namespace {

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads) add_shared(const __grid_constant__ DistanceArgs args) {
  add_staged<T, D, 1>(args);
}

}  // namespace

void shared_memory(const DistanceArgs& args, Context& context) {
  with_points(args, [&]<class T, class D>(std::type_identity<T>, D) {
    launch_points(add_shared<T, D::value>, args, context, 1);
  });
}

}  // namespace torch_reductions::cuda::distance
