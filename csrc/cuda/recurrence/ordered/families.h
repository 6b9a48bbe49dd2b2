// The file that instantiates the kernels.
#pragma once
#include "../../../common/args.h"
#include "../../primitives/launch.h"

namespace torch_reductions::cuda::recurrence {

void recur_linear(const RecurrenceArgs& args, Context& context);

}  // namespace torch_reductions::cuda::recurrence
