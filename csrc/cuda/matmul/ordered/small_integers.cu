// Products of integers of 8 and 16 bits, widened as they are loaded.
#include "families.h"
#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

void multiply_small_integers(const MatmulArgs& args, Context& context) {
  with_product_types(args.dtype, args.output_dtype,
                     [&]<class T, class Out>(std::type_identity<T>, std::type_identity<Out>) {
                       if constexpr (sizeof(T) <= 2 && std::is_integral_v<T>) ProductPlan<T, Out>(args, context).run();
                     });
}

}  // namespace torch_reductions::cuda::matmul
