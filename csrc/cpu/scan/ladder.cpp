// The CPU's rungs of the scan ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cpu {
namespace {

constexpr Launcher<ScanArgs, const Threads> kLaunchers[] = {{10, sequential}, {20, threaded}, {90, ordered}};
static_assert(match(kScanLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace

bool scan(int64_t variant, const ScanArgs& args, const Threads& threads) {
  return run(kLaunchers, variant == 0 ? kScanAuto : variant, args, threads);
}

}  // namespace torch_reductions::cpu
