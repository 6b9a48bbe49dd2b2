// The GPU's launchers of the ladder of matrix products.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda {

void one_element(const MatmulArgs& args, Context& context);
void tensor_core_hopper(const MatmulArgs& args, Context& context);

// Runs the rung of that number, 0 for auto. False where the GPU has none.
bool matmul(int64_t variant, const MatmulArgs& args, Context& context);

}  // namespace torch_reductions::cuda
