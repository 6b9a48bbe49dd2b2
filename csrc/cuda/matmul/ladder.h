// The GPU's launchers of the ladder of matrix products.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::matmul {

void one_element(const MatmulArgs& args, Context& context);
void register_tile_1(const MatmulArgs& args, Context& context);
void register_tile_2(const MatmulArgs& args, Context& context);
void register_tile_4(const MatmulArgs& args, Context& context);
void register_tile_8(const MatmulArgs& args, Context& context);
void register_tile_16(const MatmulArgs& args, Context& context);
void register_tile_32(const MatmulArgs& args, Context& context);
void register_tile_64(const MatmulArgs& args, Context& context);
void shared_tile_1(const MatmulArgs& args, Context& context);
void shared_tile_2(const MatmulArgs& args, Context& context);
void shared_tile_4(const MatmulArgs& args, Context& context);
void shared_tile_8(const MatmulArgs& args, Context& context);
void shared_tile_16(const MatmulArgs& args, Context& context);
void shared_tile_32(const MatmulArgs& args, Context& context);
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
