// amax and amin of every type.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::reduce {

void ordered_max(const ReduceArgs& args, Context& context) {
  with_kernel_type(args.input_dtype, [&]<class T>(std::type_identity<T>) { Plan<T, MaxOf<T>>(args, context).run(); });
}

}  // namespace torch_reductions::cuda::reduce
