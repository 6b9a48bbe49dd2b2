// Products of int32, wrapping: those of unsigned ones, which are the same bits.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

void multiply_int32(const MatmulArgs& args, Context& context) { ProductPlan<uint32_t, uint32_t>(args, context).run(); }

}  // namespace torch_reductions::cuda::matmul
