// cummax and cummin of float16 and bfloat16.
#include "extreme.cuh"

namespace torch_reductions::cuda::scan {

void scan_extreme_halves(const ScanArgs& args, Context& context) {
  if (args.dtype == Dtype::float16) scan_extreme_of<Half>(args, context);
  else scan_extreme_of<BFloat16>(args, context);
}

}  // namespace torch_reductions::cuda::scan
