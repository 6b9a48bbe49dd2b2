// The GPU's rungs of the scan ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::scan {
namespace {

template <auto rung, int number>
constexpr Launcher<ScanArgs, Context> with_value{number, run_with_value<rung, kScanLadder, number>};

constexpr Launcher<ScanArgs, Context> kLaunchers[] = {
    with_value<scan_then_fan, 30>,
    with_value<scan_then_fan, 31>,
    with_value<scan_then_fan, 32>,
    with_value<scan_then_fan, 33>,
    with_value<scan_then_fan, 34>,
    with_value<scan_then_fan, 35>,
    with_value<reduce_then_scan, 40>,
    with_value<reduce_then_scan, 41>,
    with_value<reduce_then_scan, 42>,
    with_value<reduce_then_scan, 43>,
    with_value<reduce_then_scan, 44>,
    with_value<reduce_then_scan, 45>,
    with_value<two_level, 50>,
    with_value<two_level, 51>,
    with_value<two_level, 52>,
    with_value<two_level, 53>,
    with_value<two_level, 54>,
    with_value<two_level_zero_padded, 60>,
    with_value<two_level_zero_padded, 61>,
    with_value<two_level_zero_padded, 62>,
    with_value<two_level_zero_padded, 63>,
    with_value<two_level_zero_padded, 64>,
    with_value<look_back, 70>,
    with_value<look_back, 71>,
    with_value<look_back, 72>,
    with_value<look_back, 73>,
    with_value<look_back, 74>,
    {80, cub_scan},
    {90, ordered},
};
static_assert(match(kScanLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::scan

bool torch_reductions::cuda::ladder::scan(int64_t variant, const ScanArgs& args, Context& context) {
  return run(scan::kLaunchers, variant == 0 ? kScanAuto : variant, args, context);
}
