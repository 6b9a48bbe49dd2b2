// The GPU's launchers of the segment ladder.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::segment {

void ordered(const SegmentArgs& args, Context& context);

}  // namespace torch_reductions::cuda::segment

namespace torch_reductions::cuda::ladder {

// Runs the rung of that number, 0 for auto. False where the GPU has none.
bool segment(int64_t variant, const SegmentArgs& args, Context& context);

}  // namespace torch_reductions::cuda::ladder
