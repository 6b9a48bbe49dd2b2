// Ordered sums and means of every type.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::reduce {

void ordered_sum(const ReduceArgs& args, Context& context) {
  with_summand_type(args.input_dtype, [&]<class T>(std::type_identity<T>) { Plan<T, SumOf<T>>(args, context).run(); });
}

}  // namespace torch_reductions::cuda::reduce
