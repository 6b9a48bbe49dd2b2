// sequential
// Changes: nothing came before: this is what every other rung is checked against.
// Costs:   each addition waits for the one before it: a few cycles per element.
// Gains:   ten lines that cannot be wrong.
// Order:   left to right, in the accumulator type.
// Needs:   any processor; contiguous rows.
// See:     the host loop of every textbook's first parallel scan.
#include "ladder.h"
#include "output.h"

namespace torch_reductions::cpu::scan {

void sequential(const ScanArgs& args, const Threads&) {
  with_types(args, [&]<class S, class R, class Op>() {
    for (int64_t row = 0; row < args.outer; row++) {
      auto total = Op::identity();
      if (args.exclusive) put_empty_value<R>(args, place_of(args, row, 0));
      for (int64_t k = 0; k + args.exclusive < args.results; k++) {
        total = Op::combine(total, value_of<Op, S>(args, row, k));
        put<R>(args, place_of(args, row, k + args.exclusive), total);
      }
    }
  });
}

}  // namespace torch_reductions::cpu::scan
