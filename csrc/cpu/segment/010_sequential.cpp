// sequential
// Changes: nothing came before: this is what the other rung is checked against.
// Costs:   each addition waits for the one before it: a few cycles per element.
// Gains:   ten lines that cannot be wrong.
// Order:   left to right, in the accumulator type.
// Needs:   any processor; any layout.
// See:     the segmented operations of Blelloch, Prefix Sums and Their Applications, 1990, section 1.5.
#include "../reduce/fold_rows.h"
#include "ladder.h"
#include "segment.h"

namespace torch_reductions::cpu::segment {

void sequential(const SegmentArgs& args, const Threads&) {
  for (int64_t i = 0; i < args.outer * args.segments.count; i++) {
    const ReduceArgs segment = segment_of(args, i / args.segments.count, i % args.segments.count);
    if (segment.length == 0) {
      write_empty(segment);
      continue;
    }
    reduce::with_rows(segment, [&](auto op, const auto* input) {
      using Op = typename decltype(op)::type;
      for (int64_t j = 0; j < segment.inner; j++) {
        typename Op::Value total = Op::identity();
        for (int64_t k = 0; k < segment.length; k++) {
          const auto element = input[j * segment.inner_stride + k * segment.length_stride];
          total = Op::combine(total, reduce::value_of<Op>(element, k, false));
        }
        reduce::write(segment, j, 1, &total);
      }
    });
  }
}

}  // namespace torch_reductions::cpu::segment
