// cummax and cummin of packed segments, of every type, with the indices.
#include "../instances.h"
#include "scan.cuh"

namespace torch_reductions::cuda::scan {

void scan_packed_extreme(const ScanArgs& args, Context& context) {
  with_kernel_type(args.dtype, [&]<class T>(std::type_identity<T>) {
    if (args.length <= INT32_MAX) scan_packed<T, LastMax<Native<T>, int32_t>>(args, context);
    else scan_packed<T, LastMax<Native<T>, int64_t>>(args, context);
  });
}

}  // namespace torch_reductions::cuda::scan
