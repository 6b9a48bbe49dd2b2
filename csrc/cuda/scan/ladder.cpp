// The GPU's rungs of the scan ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::scan {
namespace {

template <void (*rung)(const ScanArgs&, Context&, int), int number>
void run_in_blocks(const ScanArgs& args, Context& context) {
  rung(args, context, value_of(kScanLadder, number).x);
}
template <void (*rung)(const ScanArgs&, Context&, int), int number>
constexpr Launcher<ScanArgs, Context> in_blocks{number, run_in_blocks<rung, number>};

template <void (*rung)(const ScanArgs&, Context&, int, int), int number>
void run_in_grid(const ScanArgs& args, Context& context) {
  constexpr ParameterValue grid = value_of(kScanLadder, number);
  rung(args, context, grid.x, grid.y);
}
template <void (*rung)(const ScanArgs&, Context&, int, int), int number>
constexpr Launcher<ScanArgs, Context> in_grid{number, run_in_grid<rung, number>};

constexpr Launcher<ScanArgs, Context> kLaunchers[] = {
    in_grid<scan_then_fan, 30>,
    in_grid<scan_then_fan, 31>,
    in_grid<scan_then_fan, 32>,
    in_grid<scan_then_fan, 33>,
    in_grid<scan_then_fan, 34>,
    in_grid<scan_then_fan, 35>,
    in_grid<reduce_then_scan, 40>,
    in_grid<reduce_then_scan, 41>,
    in_grid<reduce_then_scan, 42>,
    in_grid<reduce_then_scan, 43>,
    in_grid<reduce_then_scan, 44>,
    in_grid<reduce_then_scan, 45>,
    in_blocks<two_level, 50>,
    in_blocks<two_level, 51>,
    in_blocks<two_level, 52>,
    in_blocks<two_level, 53>,
    in_blocks<two_level, 54>,
    in_blocks<two_level_zero_padded, 60>,
    in_blocks<two_level_zero_padded, 61>,
    in_blocks<two_level_zero_padded, 62>,
    in_blocks<two_level_zero_padded, 63>,
    in_blocks<two_level_zero_padded, 64>,
    in_blocks<look_back, 70>,
    in_blocks<look_back, 71>,
    in_blocks<look_back, 72>,
    in_blocks<look_back, 73>,
    in_blocks<look_back, 74>,
    {80, cub_scan},
    {90, ordered},
};
static_assert(match(kScanLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::scan

bool torch_reductions::cuda::ladder::scan(int64_t variant, const ScanArgs& args, Context& context) {
  return run(scan::kLaunchers, variant == 0 ? kScanAuto : variant, args, context);
}
