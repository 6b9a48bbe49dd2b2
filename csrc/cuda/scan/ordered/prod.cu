// Products of every type.
#include "../instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::scan {

void scan_prod(const ScanArgs& args, Context& context) {
  if (scan_pairs_prod(args, context)) return;
  if (args.input_dtype != args.dtype)
    return ScanPlan<int32_t, ProdOf<int64_t>, Widened<int32_t, ProdOf<int64_t>>>(args, context).run();
  with_kernel_type(args.dtype, [&]<class T>(std::type_identity<T>) { ScanPlan<T, ProdOf<T>>(args, context).run(); });
}

}  // namespace torch_reductions::cuda::scan
