// The files that instantiate the kernels, one operator each: they compile in parallel.
#pragma once
#include "../ladder.h"

namespace torch_reductions::cuda::segment {

void segment_sums(const SegmentArgs& args, Context& context);      // sum, mean
void segment_prods(const SegmentArgs& args, Context& context);     // prod
void segment_extremes(const SegmentArgs& args, Context& context);  // amax, amin

}  // namespace torch_reductions::cuda::segment
