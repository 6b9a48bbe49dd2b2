// Logarithms of sums of exponentials of packed segments, of floating types.
#include "../instances.h"
#include "scan.cuh"

namespace torch_reductions::cuda::scan {

void scan_packed_log_add(const ScanArgs& args, Context& context) {
  with_kernel_type(args.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_floating_point_v<Native<T>>) scan_packed<T, LogAdd<Accumulator<T>>>(args, context);
  });
}

}  // namespace torch_reductions::cuda::scan
