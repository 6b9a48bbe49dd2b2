// The file that instantiates the recurrence's kernel for packed segments.
#pragma once
#include "../../../common/args.h"
#include "../../primitives/launch.h"

namespace torch_reductions::cuda::recurrence {

void recur_packed_linear(const RecurrenceArgs& args, Context& context);

}  // namespace torch_reductions::cuda::recurrence
