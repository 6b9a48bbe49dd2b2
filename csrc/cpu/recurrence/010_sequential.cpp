// sequential
// Changes: nothing came before: this is what the other rung is checked against.
// Costs:   each element waits for the one before it: a multiplication and an addition, eight cycles or so.
// Gains:   ten lines that cannot be wrong, and two operations per element.
// Order:   left to right, in the accumulator type.
// Needs:   any processor; any layout.
// See:     Martin and Cundy, Parallelizing Linear Recurrent Neural Nets over Sequence Length, 2018: what is to be
//          scanned.
#include "../../common/operators.h"
#include "ladder.h"
#include "output.h"

namespace torch_reductions::cpu::recurrence {

void sequential(const RecurrenceArgs& args, const Threads&) {
  with_float(args.dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    using A = Accumulator<S>;
    const Strides to = output_strides(args);
    const int64_t gate_step = step_of(args, args.gate_strides), token_step = step_of(args, args.token_strides);
    for (int64_t line = 0; line < args.outer * args.inner; line++) {
      const int64_t outer = line / args.inner, inner = line % args.inner;
      const S* gate = static_cast<const S*>(args.gates) + first_of(args, outer, inner, args.gate_strides);
      const S* token = static_cast<const S*>(args.tokens) + first_of(args, outer, inner, args.token_strides);
      S* output = static_cast<S*>(args.output) + first_of(args, outer, inner, to);
      A h = args.initial ? widen(static_cast<const S*>(args.initial)[line]) : A(0);
      for (int64_t k = 0; k < args.length; k++) {
        const Step<A> step{widen(gate[k * gate_step]), widen(token[k * token_step])};
        h = k > 0 || args.initial ? Linear<A>::apply(step, h) : step.token;
        output[k * step_of(args, to)] = narrow<S>(h);
      }
    }
  });
}

}  // namespace torch_reductions::cpu::recurrence
