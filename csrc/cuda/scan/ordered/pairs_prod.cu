// Products of two neighbouring lines at a time.
#include "families.h"
#include "pairs.cuh"

namespace torch_reductions::cuda::scan {

bool scan_pairs_prod(const ScanArgs& args, Context& context) {
  switch (args.dtype) {
    case Dtype::float16: return scan_pairs<Half, Prod>(args, context);
    case Dtype::bfloat16: return scan_pairs<BFloat16, Prod>(args, context);
    case Dtype::float32: return scan_pairs<float, Prod>(args, context);
    default: return false;
  }
}

}  // namespace torch_reductions::cuda::scan
