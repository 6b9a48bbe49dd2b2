// The GPU's rungs of the recurrence ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::recurrence {
namespace {

constexpr Launcher<RecurrenceArgs, Context> kLaunchers[] = {{20, ordered}};
static_assert(match(kRecurrenceLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::recurrence

bool torch_reductions::cuda::ladder::recurrence(int64_t variant, const RecurrenceArgs& args, Context& context) {
  return run(recurrence::kLaunchers, variant == 0 ? kRecurrenceAuto : variant, args, context);
}
