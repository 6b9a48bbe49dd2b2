// The GPU's rungs of the scan ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda {
namespace {

constexpr Launcher<ScanArgs, Context> kLaunchers[] = {
    {30, scan_then_fan}, {40, reduce_then_scan}, {50, two_level}, {60, two_level_zero_padded},
    {70, look_back},     {80, cub_scan},         {90, ordered},
};
static_assert(match(kScanLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace

bool scan(int64_t variant, const ScanArgs& args, Context& context) {
  return run(kLaunchers, variant == 0 ? kScanAuto : variant, args, context);
}

}  // namespace torch_reductions::cuda
