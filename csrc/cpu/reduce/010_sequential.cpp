// sequential
// Changes: nothing came before: this is what every other rung is checked against.
// Costs:   each addition waits for the one before it: a few cycles per element.
// Gains:   ten lines that cannot be wrong.
// Order:   left to right, in the accumulator type.
// Needs:   any processor.
// See:     the host loop of every textbook's first parallel reduction.
#include "fold_rows.h"

namespace torch_reductions::cpu::reduce {

void sequential(const ReduceArgs& args, const Threads&) {
  with_rows(args, [&](auto op, const auto* input) {
    using Op = typename decltype(op)::type;
    for (int64_t row = 0; row < args.outer; row++) {
      const auto total = fold_part<Op>(input + row * args.length, 0, args.length, args.function == Function::argmin);
      write(args, row, 1, &total);
    }
  });
}

}  // namespace torch_reductions::cpu::reduce
