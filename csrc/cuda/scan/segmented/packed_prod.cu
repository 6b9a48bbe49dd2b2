// Products of packed segments, of every type.
#include "../instances.h"
#include "scan.cuh"

namespace torch_reductions::cuda::scan {

void scan_packed_prod(const ScanArgs& args, Context& context) {
  with_kernel_type(args.dtype, [&]<class T>(std::type_identity<T>) { scan_packed<T, ProdOf<T>>(args, context); });
}

}  // namespace torch_reductions::cuda::scan
