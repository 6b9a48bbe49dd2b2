// argmax and argmin of every type.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::reduce {

void ordered_argmax(const ReduceArgs& args, Context& context) {
  if (args.length == 1) {  // whatever the elements are
    const size_t bytes = size_t(args.outer * args.inner) * sizeof(int64_t);
    return check(cudaMemsetAsync(args.output, 0, bytes, context.stream), "cudaMemsetAsync");
  }
  with_kernel_type(args.input_dtype, [&]<class T>(std::type_identity<T>) {
    if (args.length <= UINT32_MAX) Plan<T, ArgMaxOf<T>>(args, context).run();
    else Plan<T, ArgMaxLongOf<T>>(args, context).run();
  });
}

}  // namespace torch_reductions::cuda::reduce
