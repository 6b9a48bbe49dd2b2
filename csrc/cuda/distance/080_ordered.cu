// ordered
// Changes: a thread has four points of two or three coordinates; points of more lie in shared memory, too. This is what auto
//          runs.
// Costs:   registers for four points and their chains; where there are too few points to keep the device busy, one a thread.
// Gains:   each value read from shared memory serves four chains, which do not wait for one another, and four times as many
//          loads of points are on their way; coordinates that fit in no registers are read from global memory once.
// Order:   one chain from +0, centers ascending, in each its coordinates: docs/order.md.
// Needs:   7.5 and up; any layout.
// See:     staged.cuh, tile.cuh; Volkov, Better Performance at Lower Occupancy, 2010.
#include "ladder.h"
#include "staged.cuh"
#include "tile.cuh"

namespace torch_reductions::cuda {
namespace {

constexpr int kPoints = 4;  // of a thread

template <class T, int D, int P>
__global__ void __launch_bounds__(kPointThreads) add_ordered(const __grid_constant__ DistanceArgs args) {
  add_staged<T, D, P>(args);
}

}  // namespace

void ordered(const DistanceArgs& args, Context& context) {
  const bool many = args.count >= int64_t(kPoints) * kPointThreads * multiprocessors(context.device);
  with_points(args, [&]<class T, class D>(Tag<T>, D) {
    if constexpr (D::value > 0) {
      if (many) return launch_points(add_ordered<T, D::value, kPoints>, args, context, kPoints);
    }
    if constexpr (D::value == 0) {
      if (tile_fits<T>(args, context.device))
        return launch(add_tile<T>, ceil_div(args.count, int64_t(kTilePoints)), kTilePoints, tile_bytes<T>(args.dims),
                      context.stream, args, Divisor(args.dims));
    }
    launch_points(add_ordered<T, D::value, 1>, args, context, 1);
  });
}

}  // namespace torch_reductions::cuda
