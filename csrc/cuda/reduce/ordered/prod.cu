// Ordered products of every type.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::reduce {

void ordered_prod(const ReduceArgs& args, Context& context) {
  with_summand_type(args.input_dtype, [&]<class T>(std::type_identity<T>) { Plan<T, ProdOf<T>>(args, context).run(); });
}

}  // namespace torch_reductions::cuda::reduce
