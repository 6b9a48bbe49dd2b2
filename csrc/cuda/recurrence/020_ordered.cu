// Changes: a scan of pairs: an element is the step h -> g h + t, and two steps combine into one, so a balanced tree can
//          combine them; the position alone decides its shape (docs/order.md).
// Costs:   six operations per element instead of two; a few words per tile that other blocks read.
// Gains:   the same bits alone and in a batch, as a row and as a column, on every GPU and on the CPU; one launch, which
//          reads and writes each element once; gates and tokens of any strides without a copy.
// Order:   Fold(i + 1): the left fold of the blocks of the position's binary digits; the initial state is applied last.
// Needs:   7.5 and up.
// See:     ordered/lines.cuh, the kernel, and ordered/layouts.cuh, how it reads and stores; ordered/short_rows.cuh and
//          ordered/short_columns.cuh, of short lines; segmented/packed.cuh and scan/segmented/block.cuh, of packed
//          segments and of a few long lines side by side; Blelloch, Prefix Sums and Their Applications, 1990, section
//          1.4; Martin and Cundy, Parallelizing Linear Recurrent Neural Nets over Sequence Length, 2018.
#include "../scan/segmented/few_lines.h"
#include "instances.h"
#include "ladder.h"

namespace torch_reductions::cuda::recurrence {
namespace {

// Is a line several segments, or better one packed segment? The kernel of packed segments doesn't go on from what came
// before.
bool are_packed(const RecurrenceArgs& args) {
  if (args.segments.count > 1) return true;
  const bool goes_on = args.before_gates != nullptr || args.total_gates != nullptr;
  const auto are_few_long = [&](const Strides& strides) {
    return scan::are_few_long_lines(strides, args.outer, args.length, args.inner, false);
  };
  return !goes_on && size_of(args.dtype) < 8 && are_few_long(args.gate_strides) && are_few_long(args.token_strides);
}

}  // namespace

void ordered(const RecurrenceArgs& args, Context& context) {
  if (are_packed(args)) {
    RecurrenceArgs packed = args;
    packed.segments = scan::segments_of_line(args.segments, args.length);
    recur_packed_linear(packed, context);
  } else if (!recur_short(args, context)) recur_linear(args, context);
}

}  // namespace torch_reductions::cuda::recurrence
