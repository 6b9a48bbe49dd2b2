// The GPU's rungs of the distance ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::distance {
namespace {

constexpr Launcher<DistanceArgs, Context> kLaunchers[] = {
    {20, global_memory},      {25, constant_sums_in_memory}, {30, global_register}, {40, constant_memory},
    {50, constant_divergent}, {60, read_only_cache},         {70, shared_memory},   {80, ordered},
};
static_assert(match(kDistanceLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::distance

bool torch_reductions::cuda::ladder::distance(int64_t variant, const DistanceArgs& args, Context& context) {
  return run(distance::kLaunchers, variant == 0 ? kDistanceAuto : variant, args, context);
}
