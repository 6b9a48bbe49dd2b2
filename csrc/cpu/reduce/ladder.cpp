// The CPU's rungs of the reduce ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cpu::reduce {
namespace {

constexpr Launcher<ReduceArgs, const Threads> kLaunchers[] = {{10, sequential}, {20, threaded}, {170, ordered}};
static_assert(match(kReduceLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cpu::reduce

bool torch_reductions::cpu::ladder::reduce(int64_t variant, const ReduceArgs& args, const Threads& threads) {
  return run(reduce::kLaunchers, variant == 0 ? kReduceAuto : variant, args, threads);
}
