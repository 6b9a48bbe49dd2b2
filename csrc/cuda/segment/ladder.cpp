// The GPU's rungs of the segment ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::segment {
namespace {

constexpr Launcher<SegmentArgs, Context> kLaunchers[] = {{20, ordered}};
static_assert(match(kSegmentLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::segment

bool torch_reductions::cuda::ladder::segment(int64_t variant, const SegmentArgs& args, Context& context) {
  return run(segment::kLaunchers, variant == 0 ? kSegmentAuto : variant, args, context);
}
