// Sums of two neighbouring lines at a time.
#include "../instances.h"
#include "pairs.cuh"

namespace torch_reductions::cuda::scan {

bool scan_pairs_sum(const ScanArgs& args, Context& context) { return scan_pairs_of<Sum>(args, context); }

}  // namespace torch_reductions::cuda::scan
