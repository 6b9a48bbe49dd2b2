// Launchers of rungs whose row in the ladder says that they cannot be emulated.
#include "../../../../csrc/cuda/reduce/ladder.h"
#include "../../../../csrc/cuda/scan/ladder.h"

namespace torch_reductions::cuda {

void cub_reduce(const ReduceArgs&, Context&) { fail("CUB's own kernels are not emulated"); }
void cub_scan(const ScanArgs&, Context&) { fail("CUB's own kernels are not emulated"); }

}  // namespace torch_reductions::cuda
