// The GPU's rungs of the reduce ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::reduce {
namespace {

constexpr Launcher<ReduceArgs, Context> kLaunchers[] = {
    {30, neighbored_divergent},
    {40, neighbored_compact},
    {50, interleaved_pairs},
    {60, unrolled_blocks_2},
    {61, unrolled_blocks_4},
    {62, unrolled_blocks_8},
    {70, unrolled_last_warp},
    {80, unrolled_complete},
    {90, shared_divergent},
    {100, shared_bank_conflicts},
    {110, shared_sequential},
    {120, shared_first_add},
    {130, shared_last_warp},
    {140, warp_shuffle},
    {150, single_pass},
    {160, cub_reduce},
    {170, ordered},
};
static_assert(match(kReduceLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::reduce

bool torch_reductions::cuda::ladder::reduce(int64_t variant, const ReduceArgs& args, Context& context) {
  return run(reduce::kLaunchers, variant == 0 ? kReduceAuto : variant, args, context);
}
