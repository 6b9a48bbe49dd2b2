// The GPU's launchers of the ladder of matrix products.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::matmul {

void one_element(const MatmulArgs& args, Context& context);
void register_tile(const MatmulArgs& args, Context& context, int tile);
void shared_tile(const MatmulArgs& args, Context& context, int tile);
void shared_register_tile(const MatmulArgs& args, Context& context);
void vector_loads(const MatmulArgs& args, Context& context);
void swizzled(const MatmulArgs& args, Context& context);
void async_pipeline(const MatmulArgs& args, Context& context);
void ordered(const MatmulArgs& args, Context& context);
void tensor_core(const MatmulArgs& args, Context& context);
void tensor_core_hopper(const MatmulArgs& args, Context& context);

}  // namespace torch_reductions::cuda::matmul

namespace torch_reductions::cuda::ladder {

// Runs the rung of that number, 0 for auto. False where the GPU has none.
bool matmul(int64_t variant, const MatmulArgs& args, Context& context);

}  // namespace torch_reductions::cuda::ladder
