// ordered
// Changes: a thread has four points of two or three coordinates, two of float64, and blocks of 16 centers are unrolled;
//          other points lie in shared memory, too, if 64 of them fit. This is what auto runs.
// Costs:   registers for four points and their sums; where there are too few points to keep the device busy, one point
//          per thread.
// Gains:   each value read from shared memory serves four points, whose sums do not wait for one another; points that
//          lie packed are loaded 16 bytes at a time; a coordinate that fits in no register is read once for four
//          centers.
// Order:   Fold(C) of Fold(D), docs/order.md.
// Needs:   7.5 and up; any layout.
// Local:   add_ordered (16 bytes): where larger blocks wait (common/fold.h), of 64 centers and more; a few spilled
//          registers.
// See:     packed.cuh, staged.cuh, tile.cuh; Volkov, Better Performance at Lower Occupancy, 2010.
#include "ladder.h"
#include "packed.cuh"
#include "staged.cuh"
#include "tile.cuh"

namespace torch_reductions::cuda::distance {
namespace {

template <class T>
constexpr int kPoints = 16 / int(sizeof(Accumulator<T>));  // of a thread

template <class T, int D, int P>
__global__ void __launch_bounds__(kPointThreads) add_ordered(const __grid_constant__ DistanceArgs args) {
  add_staged<T, D, P>(args);
}

}  // namespace

void ordered(const DistanceArgs& args, Context& context) {
  const int64_t blocks = multiprocessors(context.device);
  with_points(args, [&]<class T, class D>(std::type_identity<T>, D) {
    if constexpr (D::value > 0) {
      constexpr int P = kPoints<T>;
      const int64_t needed = ceil_div(args.count, int64_t(P) * kPointThreads);
      if (needed >= blocks && is_packed(args)) return launch_points(add_packed<T, D::value, P>, args, context, P);
      if (needed >= blocks) return launch_points(add_ordered<T, D::value, P>, args, context, P);
    }
    if constexpr (D::value == 0) {
      if (tile_fits<T>(args, context.device))
        return launch(add_tile<T>, ceil_div(args.count, int64_t(kTilePoints)), kTilePoints, tile_bytes<T>(args.dims),
                      context.stream, args, FastDiv(args.dims));
    }
    launch_points(add_ordered<T, D::value, 1>, args, context, 1);
  });
}

}  // namespace torch_reductions::cuda::distance
