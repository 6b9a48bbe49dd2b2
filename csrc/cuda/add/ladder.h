// The GPU's launchers of the ladder of sums of two tensors.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::add {

// In blocks of width x height threads.
void grid_2d(const AddArgs& args, Context& context, int width, int height);
void grid_1d(const AddArgs& args, Context& context);
void grid_stride(const AddArgs& args, Context& context);
void vectorized(const AddArgs& args, Context& context);

}  // namespace torch_reductions::cuda::add

namespace torch_reductions::cuda::ladder {

// Runs the rung of that number, 0 for auto. False where the GPU has none.
bool add(int64_t variant, const AddArgs& args, Context& context);

}  // namespace torch_reductions::cuda::ladder
