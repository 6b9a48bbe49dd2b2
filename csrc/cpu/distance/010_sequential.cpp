// sequential
// Changes: nothing came before: this is what the other rungs are checked against.
// Costs:   one point and one coordinate at a time.
// Gains:   three loops, and exactly what docs/order.md says.
// Order:   Fold(C) of the distances in the order of the centers; a distance is Fold(D) of the squares; difference,
//          square and sum are rounded apart.
// Needs:   any processor; any layout.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 5.
#include "../../common/fold.h"
#include "../convert.h"
#include "ladder.h"

namespace torch_reductions::cpu::distance {

void sequential(const DistanceArgs& args, const Threads&) {
  with_storage(args.dtype, [&](auto storage) {
    using T = typename decltype(storage)::type;
    if constexpr (!std::is_integral_v<T>) {
      using A = Accumulator<T>;
      const T* const centers = static_cast<const T*>(args.centers);
      for (int64_t i = 0; i < args.count; i++) {
        const auto square = [&](int64_t c, int64_t d) {
          const A coordinate =
              args.points ? A(widen(static_cast<const T*>(args.points)[i * args.point_stride + d * args.dim_stride]))
                          : A(d == 0 ? i % args.width : i / args.width);
          const A difference = coordinate - A(widen(centers[c * args.dims + d]));
          return difference * difference;
        };
        const A total = fold<A, 1>(args.centers_count, [&](int64_t c) {
          return fold<A, 1>(args.dims, [&](int64_t d) { return square(c, d); });
        });
        static_cast<T*>(args.output)[i] = narrow<T>(total);
      }
    }
  });
}

}  // namespace torch_reductions::cpu::distance
