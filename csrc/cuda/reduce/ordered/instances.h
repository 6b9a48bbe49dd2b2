// The files that instantiate the kernels, one operator each: they compile in parallel.
#pragma once
#include "../ladder.h"

namespace torch_reductions::cuda::reduce {

void ordered_sum(const ReduceArgs& args, Context& context);     // sum, mean
void ordered_prod(const ReduceArgs& args, Context& context);    // prod
void ordered_max(const ReduceArgs& args, Context& context);     // amax, amin
void ordered_argmax(const ReduceArgs& args, Context& context);  // argmax, argmin

}  // namespace torch_reductions::cuda::reduce
