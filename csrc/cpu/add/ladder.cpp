// The CPU's rungs of the ladder of sums of two tensors, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cpu::add {
namespace {

constexpr Launcher<AddArgs, const Threads> kLaunchers[] = {{10, sequential}, {50, vectorized}};
static_assert(match(kAddLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cpu::add

bool torch_reductions::cpu::ladder::add(int64_t variant, const AddArgs& args, const Threads& threads) {
  return run(add::kLaunchers, variant == 0 ? kAddAuto : variant, args, threads);
}
