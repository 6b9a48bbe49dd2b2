// The CPU's rungs of the recurrence ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cpu {
namespace {

constexpr Launcher<RecurrenceArgs, const Threads> kLaunchers[] = {{10, sequential}, {20, ordered}};
static_assert(match(kRecurrenceLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace

bool recurrence(int64_t variant, const RecurrenceArgs& args, const Threads& threads) {
  return run(kLaunchers, variant == 0 ? kRecurrenceAuto : variant, args, threads);
}

}  // namespace torch_reductions::cpu
