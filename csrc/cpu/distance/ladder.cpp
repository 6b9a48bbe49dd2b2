// The CPU's rungs of the distance ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cpu::distance {
namespace {

constexpr Launcher<DistanceArgs, const Threads> kLaunchers[] = {{10, sequential}, {80, ordered}};
static_assert(match(kDistanceLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cpu::distance

bool torch_reductions::cpu::ladder::distance(int64_t variant, const DistanceArgs& args, const Threads& threads) {
  return run(distance::kLaunchers, variant == 0 ? kDistanceAuto : variant, args, threads);
}
