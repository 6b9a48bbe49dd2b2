// What tensor_core_hopper can do, for the code that chooses a kernel.
#pragma once
#include "../../../common/args.h"
#include "../../primitives/launch.h"

namespace torch_reductions::cuda::matmul {

// Is the device a 9.0, the library compiled for 9.0a, and the product one that tensor_core_hopper takes? float16,
// bfloat16, int8 or uint8; any layout, k and batch.
bool hopper_runs(const MatmulArgs& args, const Context& context);

// And its parts, if there are several: groups of 16 of k that are one chain, of a result that fills half the device.
bool hopper_takes_parts(const MatmulArgs& args, const Context& context);

}  // namespace torch_reductions::cuda::matmul
