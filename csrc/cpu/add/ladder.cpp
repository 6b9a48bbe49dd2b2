// The CPU's rungs of the ladder of sums of two tensors, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cpu {
namespace {

constexpr Launcher<AddArgs, const Threads> kLaunchers[] = {{10, sequential}, {50, vectorized}};
static_assert(match(kAddLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace

bool add(int64_t variant, const AddArgs& args, const Threads& threads) {
  return run(kLaunchers, variant == 0 ? kAddAuto : variant, args, threads);
}

}  // namespace torch_reductions::cpu
