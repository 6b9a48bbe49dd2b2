// The linear recurrence of every floating type.
#include "../instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::recurrence {

void recur_linear(const RecurrenceArgs& args, Context& context) {
  with_storage(args.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) RecurrencePlan<T>(args, context).run();
  });
}

}  // namespace torch_reductions::cuda::recurrence
