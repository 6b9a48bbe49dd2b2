// cummax and cummin of every type; of halves in a file of their own, because together they compile too long.
#include "extreme.cuh"

namespace torch_reductions::cuda::scan {

void scan_extreme(const ScanArgs& args, Context& context) {
  if (args.dtype == Dtype::float16 || args.dtype == Dtype::bfloat16) return scan_extreme_halves(args, context);
  with_kernel_type(args.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_arithmetic_v<T>) scan_extreme_of<T>(args, context);
  });
}

}  // namespace torch_reductions::cuda::scan
