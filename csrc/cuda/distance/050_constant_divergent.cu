// constant_divergent
// Changes: against constant_memory: each lane starts at a different center and wraps around.
// Costs:   the lanes of a warp read different addresses, which constant memory serves one after another: what it is bad
//          at. Up to compute capability 1.x a request was that of half a warp, and its different addresses were counted
//          among 16 lanes; since then it is that of a warp, so 20 centers are 20 addresses, and lanes with the same one
//          share a turn. A 9.0 GPU shows it: the loads take turns that nothing hides where there are many points, and
//          with 256 x 256 of them the copy and the launch hide most of it (benchmarks/results/distance_h200.csv,
//          docs/ladder.md has the ratios).
// Gains:   none: it is here to be measured against constant_memory, which reads as much and adds as much.
// Order:   different for each lane: in each part one chain of distances, which begins at center (lane modulo the part's
//          centers) and goes around; a distance, and the parts, as in constant_memory.
// Needs:   7.5 and up; any layout.
// Local:   add_constants_around (1 bytes): where larger blocks of squares wait (common/fold.h), of 64 coordinates and
//          more.
// See:     constants.h, for streams and graphs; NVIDIA, CUDA C++ Programming Guide, Constant Memory.
#include "constants.cuh"
#include "ladder.h"

namespace torch_reductions::cuda::distance {
namespace {

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads)
    add_constants_around(const __grid_constant__ DistanceArgs args, const __grid_constant__ ConstantPart part) {
  const int64_t i = point_of_thread();
  if (i >= args.count) return;
  Point<T, D> point[1];
  point[0].load(args, i);
  const auto go_around = [&](const T* centers) {
    Accumulator<T> total = total_before<T>(args, part, i);
    const unsigned lane = threadIdx.x % 32;
    int64_t c = part.length > lane || part.length == 0 ? lane : lane % unsigned(part.length);
    for (int64_t left = part.length; left > 0; left--) {
      const T* const center = centers + c * args.dims;
      total += distances(point, args.dims, [&](int64_t d) { return factor(center[d]); }).of[0];
      c = c + 1 == part.length ? 0 : c + 1;
    }
    return total;
  };
  const T* const in_memory = static_cast<const T*>(args.centers) + part.begin * args.dims;
  store_part<T>(args, part, i, part.slot >= 0 ? go_around(constants_of<T>(part)) : go_around(in_memory));
}

}  // namespace

void constant_divergent(const DistanceArgs& args, Context& context) {
  each_constant_part(bank, args, context, [](const DistanceArgs& args, Context& context, const ConstantPart& part) {
    with_points(args, [&]<class T, class D>(std::type_identity<T>, D) {
      launch_points(add_constants_around<T, D::value>, args, context, 1, part);
    });
  });
}

}  // namespace torch_reductions::cuda::distance
