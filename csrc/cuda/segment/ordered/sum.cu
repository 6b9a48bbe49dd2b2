// Sums and means of the segments of every type.
#include "instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::segment {

void segment_sums(const SegmentArgs& args, Context& context) {
  with_summand_type(args.input_dtype,
                    [&]<class T>(std::type_identity<T>) { SegmentPlan<T, SumOf<T>>(args, context).run(); });
}

}  // namespace torch_reductions::cuda::segment
