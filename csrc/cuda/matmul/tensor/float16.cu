#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

void tensor_core_float16(const MatmulArgs& args, Context& context) { launch_product<Half>(args, context); }

}  // namespace torch_reductions::cuda::matmul
