#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

void tensor_core_int8(const MatmulArgs& args, Context& context) { launch_product<int8_t>(args, context); }
void tensor_core_uint8(const MatmulArgs& args, Context& context) { launch_product<uint8_t>(args, context); }

}  // namespace torch_reductions::cuda::matmul
