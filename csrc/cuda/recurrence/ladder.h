// The GPU's launchers of the recurrence ladder.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::recurrence {

void ordered(const RecurrenceArgs& args, Context& context);

}  // namespace torch_reductions::cuda::recurrence

namespace torch_reductions::cuda::ladder {

// Runs the rung of that number, 0 for auto. False where the GPU has none.
bool recurrence(int64_t variant, const RecurrenceArgs& args, Context& context);

}  // namespace torch_reductions::cuda::ladder
