// Logarithms of sums of exponentials, of floating types.
#include "../instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::scan {

void scan_log_add(const ScanArgs& args, Context& context) {
  with_kernel_type(args.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_floating_point_v<Native<T>>) ScanPlan<T, LogAdd<Accumulator<T>>>(args, context).run();
  });
}

}  // namespace torch_reductions::cuda::scan
