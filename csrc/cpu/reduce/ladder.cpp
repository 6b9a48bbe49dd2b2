// The CPU's rungs of the reduce ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cpu {
namespace {

constexpr Launcher<ReduceArgs, const Threads> kLaunchers[] = {{10, sequential}, {20, threaded}, {170, ordered}};
static_assert(match(kReduceLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace

bool reduce(int64_t variant, const ReduceArgs& args, const Threads& threads) {
  return run(kLaunchers, variant == 0 ? kReduceAuto : variant, args, threads);
}

}  // namespace torch_reductions::cpu
