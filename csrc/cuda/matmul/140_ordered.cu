// ordered
// Changes: the order of operations is a function of k alone (docs/order.md): chunks of 512, added from left to right.
//          So k may be split over blocks, and every shape of tile gives the same bits.
// Costs:   the totals of earlier chunks wait in shared memory, one more addition per chunk; where k is split over
//          blocks, a second launch, which reads the value of each chunk.
// Gains:   a row has the same bits alone, in a batch, and on the CPU; narrow products and those with a long k fill the
//          device; a pipeline of asynchronous copies keeps the multipliers busy, whichever way the operands lie;
//          float64 has the tensor cores of 9.0, where a step is a chain of fused multiply-adds.
// Order:   chunks of 512, each one chain of fused multiply-adds with k ascending from +0, added from left to right.
//          float16 and bfloat16 from 8.0 on: the steps of the tensor cores, as in tensor_core. Parts of k begin anew,
//          and are joined by a balanced tree.
// Needs:   7.5 and up; any layout.
// See:     ordered/plan.cuh chooses the kernel by the data in ordered/tuning.h; ordered/tile.cuh, tensor_float64.cuh,
//          skinny.cuh, few_lines.cuh, short_lines.cuh, shallow.cuh, shallow_tile.cuh are the kernels; split_k.cuh adds
//          chunks that different blocks have multiplied, ordered/parts.cu joins parts.
#include "hopper/hopper.h"
#include "ladder.h"
#include "ordered/instances.h"
#include "tensor/tensor_core.h"

namespace torch_reductions::cuda::matmul {

void ordered(const MatmulArgs& args, Context& context) {
  if (args.parts > 1 && !tiles_take_parts(args, context)) {
    return hopper_takes_parts(args, context) ? tensor_core_hopper(args, context) : multiply_parts(args, context);
  }
  if (tensor_core_runs(args, context)) {
    const bool small =
        suits_shallow_tiles(args) || suits_long_tiles(args, context) || suits_narrow_tiles(args, context);
    const bool hopper = !small && hopper_runs(args, context);
    return hopper ? tensor_core_hopper(args, context) : tensor_core(args, context);
  }
  switch (args.dtype) {
    case Dtype::float32: return multiply_float32(args, context);
    case Dtype::float64: return multiply_float64(args, context);
    case Dtype::int32: return multiply_int32(args, context);
    case Dtype::int64: return multiply_int64(args, context);
    case Dtype::float16:
    case Dtype::bfloat16: return multiply_halves(args, context);
    default: return multiply_small_integers(args, context);
  }
}

}  // namespace torch_reductions::cuda::matmul
