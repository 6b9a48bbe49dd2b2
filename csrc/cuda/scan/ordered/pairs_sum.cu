// Sums of two neighbouring lines at a time.
#include "families.h"
#include "pairs.cuh"

namespace torch_reductions::cuda::scan {

bool scan_pairs_sum(const ScanArgs& args, Context& context) {
  switch (args.dtype) {
    case Dtype::float16: return scan_pairs<Half, Sum>(args, context);
    case Dtype::bfloat16: return scan_pairs<BFloat16, Sum>(args, context);
    case Dtype::float32: return scan_pairs<float, Sum>(args, context);
    default: return false;
  }
}

}  // namespace torch_reductions::cuda::scan
