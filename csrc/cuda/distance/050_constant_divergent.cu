// constant_divergent
// Changes: each lane begins at another center, its own, and comes around to it.
// Costs:   the lanes of a warp read different addresses, which constant memory serves one after another: what it is bad at.
// Gains:   none: it is here to be measured against constant_memory, which reads as much and adds as much.
// Order:   one chain from +0 that begins, in each part of 4 KB, at center (lane modulo the part's centers) and goes around:
//          of its own, and each lane's another one.
// Needs:   7.5 and up; any layout.
// See:     constants.h, for streams and graphs; NVIDIA, CUDA C++ Programming Guide, Constant Memory.
#include "constants.cuh"
#include "ladder.h"

namespace torch_reductions::cuda {
namespace {

// The chain of one point around the n coordinates, from element `start` on; `dim` is the coordinate of element 0.
template <int D, class T, class Element>
__device__ __forceinline__ Accumulator<T> go_around(Accumulator<T> total, const Point<T, D>& point, int n, int start,
                                                    int64_t dim, int64_t dims, const Element& element) {
  constexpr int kStep = D > 0 ? D : 1;
  int64_t at = D > 0 ? 0 : (dim + start) % dims;
  for (int k = start, left = n; left > 0; left -= kStep) {
#pragma unroll
    for (int d = 0; d < kStep; d++) total = add_square(total, point[at + d], element(k + d));
    k = k + kStep == n ? 0 : k + kStep;
    if constexpr (D == 0) at = k == 0 ? dim : at + 1 == dims ? 0 : at + 1;
  }
  return total;
}

template <class T, int D>
__global__ void __launch_bounds__(kPointThreads)
    add_constants_around(const __grid_constant__ DistanceArgs args, const __grid_constant__ ConstantPart part) {
  const int64_t i = point_of_thread();
  if (i >= args.count) return;
  Point<T, D> point;
  point.load(args, i);
  Accumulator<T> total = total_before<T>(part, i);
  const auto add = [&](const T* centers) {
    if (part.length == 0) return;
    const int start = int(threadIdx.x % 32 * args.dims % part.length);
    const int64_t dim = D == 0 ? part.begin % args.dims : 0;
    total = go_around<D>(total, point, part.length, start, dim, args.dims, [&](int k) { return factor(centers[k]); });
  };
  if (part.slot >= 0) add(constants_of<T>(part));
  else add(static_cast<const T*>(args.centers) + part.begin);
  store_total<T>(args, part, i, total);
}

}  // namespace

void constant_divergent(const DistanceArgs& args, Context& context) {
  each_constant_part(bank, args, context, [](const DistanceArgs& args, Context& context, const ConstantPart& part) {
    with_points(args, [&]<class T, class D>(Tag<T>, D) {
      launch_points(add_constants_around<T, D::value>, args, context, 1, part);
    });
  });
}

}  // namespace torch_reductions::cuda
