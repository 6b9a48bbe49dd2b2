// sequential
// Changes: nothing came before: this is what the other rungs are checked against.
// Costs:   each step of the chain waits for the one before it: a few cycles a coordinate of a center.
// Gains:   three loops that cannot be wrong.
// Order:   one chain from +0, centers ascending, in each its coordinates: the difference is rounded, its square is added by
//          a fused multiply-add.
// Needs:   any processor; any layout.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 5.
#include <cmath>

#include "../convert.h"
#include "ladder.h"

namespace torch_reductions::cpu {

void sequential(const DistanceArgs& args, const Threads&) {
  with_storage(args.dtype, [&](auto storage) {
    using T = typename decltype(storage)::type;
    if constexpr (!std::is_integral_v<T>) {
      using A = Accumulator<T>;
      const T* const centers = static_cast<const T*>(args.centers);
      for (int64_t i = 0; i < args.count; i++) {
        A total = 0;
        for (int64_t c = 0; c < args.centers_count; c++) {
          for (int64_t d = 0; d < args.dims; d++) {
            const A coordinate =
                args.points ? A(widen(static_cast<const T*>(args.points)[i * args.point_stride + d * args.dim_stride]))
                            : A(d == 0 ? i % args.width : i / args.width);
            const A difference = coordinate - A(widen(centers[c * args.dims + d]));
            total = std::fma(difference, difference, total);
          }
        }
        static_cast<T*>(args.output)[i] = narrow<T>(total);
      }
    }
  });
}

}  // namespace torch_reductions::cpu
