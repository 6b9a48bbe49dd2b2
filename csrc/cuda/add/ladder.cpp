// The GPU's rungs of the ladder of sums of two tensors, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::add {
namespace {

constexpr Launcher<AddArgs, Context> kLaunchers[] = {
    {20, grid_2d}, {21, grid_2d_16x16}, {22, grid_2d_32x8}, {23, grid_2d_128x1},
    {30, grid_1d}, {40, grid_stride},   {50, vectorized},
};
static_assert(match(kAddLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::add

bool torch_reductions::cuda::ladder::add(int64_t variant, const AddArgs& args, Context& context) {
  return run(add::kLaunchers, variant == 0 ? kAddAuto : variant, args, context);
}
