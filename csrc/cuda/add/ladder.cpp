// The GPU's rungs of the ladder of sums of two tensors, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::add {
namespace {

template <int number>
void run_in_blocks(const AddArgs& args, Context& context) {
  constexpr ParameterValue block = value_of(kAddLadder, number);
  grid_2d(args, context, block.x, block.y);
}

constexpr Launcher<AddArgs, Context> kLaunchers[] = {
    {20, run_in_blocks<20>}, {21, run_in_blocks<21>}, {22, run_in_blocks<22>}, {23, run_in_blocks<23>},
    {24, run_in_blocks<24>}, {30, grid_1d},           {40, grid_stride},       {50, vectorized},
};
static_assert(match(kAddLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::add

bool torch_reductions::cuda::ladder::add(int64_t variant, const AddArgs& args, Context& context) {
  return run(add::kLaunchers, variant == 0 ? kAddAuto : variant, args, context);
}
