// Changes: the shape of the tree follows the length alone (docs/order.md), not the block, the grid or the layout.
// Costs:   a few shuffles and selects for the ragged end of a row; they hide behind the loads.
// Gains:   the same bits alone and in a batch, as a row and as a column, on every GPU and on the CPU; one launch; every
//          layout [outer, length, inner] without a copy; the speed of the memory.
// Order:   Fold(length): balanced trees over the blocks of the length's binary digits, folded from left to right.
// Needs:   7.5 and up.
// See:     ordered/plan.cuh chooses the kernel;
//          ordered/{rows,short_rows,long_rows,few_rows,few_columns,columns,shifted_columns}.cuh are the kernels.
#include "ladder.h"
#include "ordered/instances.h"

namespace torch_reductions::cuda::reduce {

void ordered(const ReduceArgs& args, Context& context) {
  switch (args.function) {
    case Function::sum:
    case Function::mean: return ordered_sum(args, context);
    case Function::prod: return ordered_prod(args, context);
    case Function::amax:
    case Function::amin: return ordered_max(args, context);
    case Function::argmax:
    case Function::argmin: return ordered_argmax(args, context);
  }
}

}  // namespace torch_reductions::cuda::reduce
