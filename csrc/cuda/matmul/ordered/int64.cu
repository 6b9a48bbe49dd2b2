// Products of int64, wrapping: those of unsigned ones, which are the same bits.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

void multiply_int64(const MatmulArgs& args, Context& context) { ProductPlan<uint64_t, uint64_t>(args, context).run(); }

}  // namespace torch_reductions::cuda::matmul
