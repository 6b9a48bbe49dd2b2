// The files that instantiate the kernels of `ordered`.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::recurrence {

// Of short lines; false: they are not, and nothing was launched.
bool recur_short(const RecurrenceArgs& args, Context& context);

void recur_linear(const RecurrenceArgs& args, Context& context);

// Of columns whose rows begin anywhere (ordered/shifted.cuh), except for float64; recur_linear calls it.
void recur_linear_shifted(const RecurrenceArgs& args, Context& context);

// Of packed segments.
void recur_packed_linear(const RecurrenceArgs& args, Context& context);

}  // namespace torch_reductions::cuda::recurrence
