// Changes: the order of operations is a function of the position alone (docs/order.md), not of the block or the grid.
// Costs:   two combinations per element, each element twice through shared memory; a few words per tile that other
//          blocks read, which is why a block publishes the total of its next tile before it waits for those of others.
// Gains:   the same bits alone and in a batch, as a row and as a column, on every GPU and on the CPU; one launch, which
//          moves each element once from memory and once back; every layout [outer, length, inner] without a copy.
// Order:   Fold(i + 1), or Fold(i) where exclusive: the left fold of the blocks of the position's binary digits.
// Needs:   7.5 and up.
// See:     ordered/plan.cuh chooses the kernel; ordered/{rows,short_rows,columns,short_columns,long_columns}.cuh are
//          the kernels, pairs.cuh has them take two lines at a time, pipeline.cuh is what a block does with its tiles,
//          carry.cuh joins tiles; segmented/ is the same for packed segments.
#include "instances.h"
#include "ladder.h"

namespace torch_reductions::cuda::scan {

void ordered(const ScanArgs& args, Context& context) {
  if (args.segments.offsets != nullptr) {
    switch (args.function) {
      case Scan::cumsum: return scan_packed_sum(args, context);
      case Scan::cumprod: return scan_packed_prod(args, context);
      case Scan::logcumsumexp: return scan_packed_log_add(args, context);
      case Scan::cummax:
      case Scan::cummin: return scan_packed_extreme(args, context);
    }
  }
  switch (args.function) {
    case Scan::cumsum: return scan_sum(args, context);
    case Scan::cumprod: return scan_prod(args, context);
    case Scan::logcumsumexp: return scan_log_add(args, context);
    case Scan::cummax:
    case Scan::cummin: return scan_extreme(args, context);
  }
}

}  // namespace torch_reductions::cuda::scan
