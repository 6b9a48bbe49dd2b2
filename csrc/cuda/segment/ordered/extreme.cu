// amax and amin of the segments of every type.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::segment {

void segment_extremes(const SegmentArgs& args, Context& context) {
  with_kernel_type(args.input_dtype,
                   [&]<class T>(std::type_identity<T>) { SegmentPlan<T, MaxOf<T>>(args, context).run(); });
}

}  // namespace torch_reductions::cuda::segment
