// Changes: the order of operations is a function of the position alone (docs/order.md), not of the block or the grid.
// Costs:   two combinations per element, each element twice through shared memory; a few words per tile that other
//          blocks read, which is why a block publishes the total of its next tile before it waits for those of others.
// Gains:   the same bits alone and in a batch, as a row and as a column, on every GPU and on the CPU; one launch, which
//          moves each element once from memory and once back; every layout [outer, length, inner] without a copy.
// Order:   Fold(i + 1), or Fold(i) where exclusive: the left fold of the blocks of the position's binary digits.
// Needs:   7.5 and up.
// See:     ordered/plan.cuh chooses the kernel; ordered/{rows,short_rows,columns,short_columns,long_columns}.cuh are
//          the kernels, pairs.cuh has them take two lines at a time, pipeline.cuh is what a block does with its tiles,
//          carry.cuh joins tiles; segmented/ is the same for packed segments, and for a
//          few long lines side by side.
#include "instances.h"
#include "ladder.h"
#include "segmented/few_lines.h"

namespace torch_reductions::cuda::scan {
namespace {

// Is a line several segments, or better one packed segment? The kernels of packed segments don't go on from what came
// before.
bool are_packed(const ScanArgs& args) {
  if (args.segments.count > 1) return true;
  const bool goes_on = args.before != nullptr || args.totals != nullptr || args.front != 0;
  const bool is_plain = !goes_on && args.results == args.length && args.input_dtype == args.dtype;
  if (!is_plain || args.mask.data != nullptr || args.function == Scan::logcumsumexp) return false;
  const Strides strides{args.outer_stride, args.length_stride, args.inner_stride};
  const bool indexed = args.indices != nullptr, wide = size_of(args.dtype) == 8;
  return (indexed || wide) && are_few_long_lines(strides, args.outer, args.length, args.inner, indexed && wide);
}

void scan_packed(ScanArgs args, Context& context) {
  args.segments = segments_of_line(args.segments, args.length);
  switch (args.function) {
    case Scan::cumsum: return scan_packed_sum(args, context);
    case Scan::cumprod: return scan_packed_prod(args, context);
    case Scan::logcumsumexp: return scan_packed_log_add(args, context);
    case Scan::cummax:
    case Scan::cummin: return scan_packed_extreme(args, context);
  }
}

}  // namespace

void ordered(const ScanArgs& args, Context& context) {
  if (are_packed(args)) return scan_packed(args, context);
  switch (args.function) {
    case Scan::cumsum: return scan_sum(args, context);
    case Scan::cumprod: return scan_prod(args, context);
    case Scan::logcumsumexp: return scan_log_add(args, context);
    case Scan::cummax:
    case Scan::cummin: return scan_extreme(args, context);
  }
}

}  // namespace torch_reductions::cuda::scan
