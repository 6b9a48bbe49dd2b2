// The GPU's launchers of the distance ladder.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::distance {

void global_memory(const DistanceArgs& args, Context& context);
void constant_sums_in_memory(const DistanceArgs& args, Context& context);
void global_register(const DistanceArgs& args, Context& context);
void constant_memory(const DistanceArgs& args, Context& context);
void constant_divergent(const DistanceArgs& args, Context& context);
void read_only_cache(const DistanceArgs& args, Context& context);
void shared_memory(const DistanceArgs& args, Context& context);
void ordered(const DistanceArgs& args, Context& context);

}  // namespace torch_reductions::cuda::distance

namespace torch_reductions::cuda::ladder {

// Runs the rung of that number, 0 for auto. False where the GPU has none.
bool distance(int64_t variant, const DistanceArgs& args, Context& context);

}  // namespace torch_reductions::cuda::ladder
