// The CPU's rungs of the segment ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cpu::segment {
namespace {

constexpr Launcher<SegmentArgs, const Threads> kLaunchers[] = {{10, sequential}, {20, ordered}};
static_assert(match(kSegmentLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cpu::segment

bool torch_reductions::cpu::ladder::segment(int64_t variant, const SegmentArgs& args, const Threads& threads) {
  return run(segment::kLaunchers, variant == 0 ? kSegmentAuto : variant, args, threads);
}
