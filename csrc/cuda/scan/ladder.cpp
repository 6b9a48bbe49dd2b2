// The GPU's rungs of the scan ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda {
namespace {

// The same kernels in blocks of a given size.
template <void (*rung)(const ScanArgs&, Context&, int), int threads>
void in_blocks(const ScanArgs& args, Context& context) {
  rung(args, context, threads);
}

constexpr Launcher<ScanArgs, Context> kLaunchers[] = {
    {30, in_blocks<scan_then_fan, 0>},
    {31, in_blocks<scan_then_fan, 128>},
    {32, in_blocks<scan_then_fan, 256>},
    {33, in_blocks<scan_then_fan, 512>},
    {34, in_blocks<scan_then_fan, 1024>},
    {40, in_blocks<reduce_then_scan, 0>},
    {41, in_blocks<reduce_then_scan, 128>},
    {42, in_blocks<reduce_then_scan, 256>},
    {43, in_blocks<reduce_then_scan, 512>},
    {44, in_blocks<reduce_then_scan, 1024>},
    {50, in_blocks<two_level, 0>},
    {51, in_blocks<two_level, 128>},
    {52, in_blocks<two_level, 256>},
    {53, in_blocks<two_level, 512>},
    {54, in_blocks<two_level, 1024>},
    {60, in_blocks<two_level_zero_padded, 0>},
    {61, in_blocks<two_level_zero_padded, 128>},
    {62, in_blocks<two_level_zero_padded, 256>},
    {63, in_blocks<two_level_zero_padded, 512>},
    {64, in_blocks<two_level_zero_padded, 1024>},
    {70, in_blocks<look_back, 0>},
    {71, in_blocks<look_back, 128>},
    {72, in_blocks<look_back, 256>},
    {73, in_blocks<look_back, 512>},
    {74, in_blocks<look_back, 1024>},
    {80, cub_scan},
    {90, ordered},
};
static_assert(match(kScanLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace

bool scan(int64_t variant, const ScanArgs& args, Context& context) {
  return run(kLaunchers, variant == 0 ? kScanAuto : variant, args, context);
}

}  // namespace torch_reductions::cuda
