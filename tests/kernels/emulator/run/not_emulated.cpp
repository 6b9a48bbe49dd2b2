// Launchers of rungs whose row in the ladder says that they cannot be emulated. Their names are qualified: a definition
// that no header declares would be another function, and the linker of most kinds ignores what is missing (build.py).
#include "../../../../csrc/cuda/reduce/ladder.h"
#include "../../../../csrc/cuda/scan/ladder.h"

namespace torch_reductions {

void cuda::reduce::cub_reduce(const ReduceArgs&, cuda::Context&) { fail("CUB's own kernels are not emulated"); }
void cuda::scan::cub_scan(const ScanArgs&, cuda::Context&) { fail("CUB's own kernels are not emulated"); }

}  // namespace torch_reductions
