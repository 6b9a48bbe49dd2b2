#include "plan.cuh"

namespace torch_reductions::cuda {

void tensor_core_bfloat16(const MatmulArgs& args, Context& context) { launch_product<BFloat16>(args, context); }

}  // namespace torch_reductions::cuda
