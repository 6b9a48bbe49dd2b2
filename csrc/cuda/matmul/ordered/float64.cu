// Products of float64.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

void multiply_float64(const MatmulArgs& args, Context& context) { ProductPlan<double, double>(args, context).run(); }

}  // namespace torch_reductions::cuda::matmul
