// Products of float32.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

void multiply_float32(const MatmulArgs& args, Context& context) { ProductPlan<float, float>(args, context).run(); }

}  // namespace torch_reductions::cuda::matmul
