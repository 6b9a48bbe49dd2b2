// Products of integers of 8 and 16 bits, widened as they are loaded.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

void multiply_small_integers(const MatmulArgs& args, Context& context) {
  const auto multiply = [&]<class T>(std::type_identity<T>) {
    if (args.output_dtype == args.dtype) ProductPlan<T, T>(args, context).run();
    else ProductPlan<T, int32_t>(args, context).run();
  };
  switch (args.dtype) {
    case Dtype::int8: return multiply(std::type_identity<int8_t>());
    case Dtype::uint8: return multiply(std::type_identity<uint8_t>());
    default: return multiply(std::type_identity<int16_t>());
  }
}

}  // namespace torch_reductions::cuda::matmul
