// The linear recurrence of columns whose rows begin anywhere, of every floating type but double.
#include "../instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::recurrence {

void recur_linear_shifted(const RecurrenceArgs& args, Context& context) {
  with_storage(args.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T> && sizeof(T) < 8) RecurrencePlan<T>(args, context).run_shifted();
  });
}

}  // namespace torch_reductions::cuda::recurrence
