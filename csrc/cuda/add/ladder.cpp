// The GPU's rungs of the ladder of sums of two tensors, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::add {
namespace {

template <auto rung, int number>
constexpr Launcher<AddArgs, Context> with_value{number, run_with_value<rung, kAddLadder, number>};

constexpr Launcher<AddArgs, Context> kLaunchers[] = {
    with_value<grid_2d, 20>, with_value<grid_2d, 21>, with_value<grid_2d, 22>, with_value<grid_2d, 23>,
    with_value<grid_2d, 24>, {30, grid_1d},           {40, grid_stride},       {50, vectorized},
};
static_assert(match(kAddLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::add

bool torch_reductions::cuda::ladder::add(int64_t variant, const AddArgs& args, Context& context) {
  return run(add::kLaunchers, variant == 0 ? kAddAuto : variant, args, context);
}
