#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

bool tensor_core_compiled() {
  static const bool found = attributes_of(multiply_fragments<BFloat16, SquareTensorTile, true, true>).ptxVersion >= 80;
  return found;
}

void tensor_core_bfloat16(const MatmulArgs& args, Context& context) { launch_product<BFloat16>(args, context); }

}  // namespace torch_reductions::cuda::matmul
