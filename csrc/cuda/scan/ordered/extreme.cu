// cummax and cummin of every type, with the indices.
#include "families.h"
#include "plan.cuh"

namespace torch_reductions::cuda::scan {

void scan_extreme(const ScanArgs& args, Context& context) {
  with_kernel_type(args.dtype, [&]<class T>(std::type_identity<T>) {
    if (args.length <= INT32_MAX) ScanPlan<T, LastMax<Native<T>, int32_t>>(args, context).run();
    else ScanPlan<T, LastMax<Native<T>, int64_t>>(args, context).run();
  });
}

}  // namespace torch_reductions::cuda::scan
