// The linear recurrence of packed segments, of every floating type.
#include "../instances.h"
#include "packed.cuh"

namespace torch_reductions::cuda::recurrence {

void recur_packed_linear(const RecurrenceArgs& args, Context& context) {
  with_storage(args.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) recur_packed<T>(args, context);
  });
}

}  // namespace torch_reductions::cuda::recurrence
