// Products of two neighbouring lines at a time.
#include "../instances.h"
#include "pairs.cuh"

namespace torch_reductions::cuda::scan {

bool scan_pairs_prod(const ScanArgs& args, Context& context) { return scan_pairs_of<Prod>(args, context); }

}  // namespace torch_reductions::cuda::scan
