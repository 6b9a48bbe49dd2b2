// Changes: the shape of the tree follows the length alone (docs/order.md), not the block, the grid or the layout.
// Costs:   a few shuffles and selects for the ragged end of a row; they hide behind the loads.
// Gains:   the same bits alone and in a batch, as a row and as a column, on every GPU and on the CPU; one launch; every
//          layout [outer, length, inner] without a copy; the speed of the memory.
// Order:   Fold(length): balanced trees over the blocks of the length's binary digits, folded from left to right.
// Needs:   7.5 and up.
// See:     ordered/plan.cuh chooses the kernel; ordered/{rows,short_rows,long_rows,few_rows,few_columns,columns}.cuh are
//          the kernels.
#include "ladder.h"
#include "ordered/families.h"

namespace torch_reductions::cuda::reduce {
namespace {

// The empty value: 0, 1, or NaN for a mean.
__global__ void fill(void* out, Dtype dtype, int64_t count, Function function) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const bool one = function == Function::prod, mean = function == Function::mean;
  switch (dtype) {
    case Dtype::float16: static_cast<uint16_t*>(out)[i] = mean ? 0x7e00 : one ? 0x3c00 : 0; break;
    case Dtype::bfloat16: static_cast<uint16_t*>(out)[i] = mean ? 0x7fc0 : one ? 0x3f80 : 0; break;
    case Dtype::float32: static_cast<float*>(out)[i] = mean ? nanf("") : float(one); break;
    case Dtype::float64: static_cast<double*>(out)[i] = mean ? nan("") : double(one); break;
    case Dtype::int64: static_cast<int64_t*>(out)[i] = one; break;
    case Dtype::int32: static_cast<int32_t*>(out)[i] = one; break;
    case Dtype::int16: static_cast<int16_t*>(out)[i] = one; break;
    default: static_cast<uint8_t*>(out)[i] = one;
  }
}

}  // namespace

void ordered(const ReduceArgs& args, Context& context) {
  const int64_t count = args.outer * args.inner;
  if (count == 0) return;
  if (args.length == 0)
    return launch(&fill, (count + 255) / 256, 256, 0, context.stream, args.output, args.output_dtype, count,
                  args.function);
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
