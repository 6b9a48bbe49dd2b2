// Products of float16 and bfloat16, widened to float32 as they are loaded.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

void multiply_halves(const MatmulArgs& args, Context& context) {
  const auto multiply = [&]<class T>(std::type_identity<T>) {
    if (args.output_dtype == args.dtype) ProductPlan<T, T>(args, context).run();
    else ProductPlan<T, float>(args, context).run();
  };
  if (args.dtype == Dtype::float16) multiply(std::type_identity<Half>());
  else multiply(std::type_identity<BFloat16>());
}

}  // namespace torch_reductions::cuda::matmul
