// The GPU's rungs of the scan ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda {
namespace {

constexpr Launcher<ScanArgs, Context> kLaunchers[] = {{90, ordered}};
static_assert(match(kScanLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace

bool scan(int64_t variant, const ScanArgs& args, Context& context) {
  return run(kLaunchers, variant == 0 ? kScanAuto : variant, args, context);
}

}  // namespace torch_reductions::cuda
