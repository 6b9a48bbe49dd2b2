// The GPU's rungs of the ladder of matrix products, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::matmul {
namespace {

template <auto rung, int number>
constexpr Launcher<MatmulArgs, Context> with_value{number, run_with_value<rung, kMatmulLadder, number>};

constexpr Launcher<MatmulArgs, Context> kLaunchers[] = {
    {40, one_element},
    with_value<register_tile, 50>,
    with_value<register_tile, 51>,
    with_value<register_tile, 52>,
    with_value<register_tile, 53>,
    with_value<register_tile, 54>,
    with_value<register_tile, 55>,
    with_value<register_tile, 56>,
    with_value<shared_tile, 60>,
    with_value<shared_tile, 61>,
    with_value<shared_tile, 62>,
    with_value<shared_tile, 63>,
    with_value<shared_tile, 64>,
    with_value<shared_tile, 65>,
    {70, shared_register_tile},
    {80, vector_loads},
    {90, swizzled},
    {100, async_pipeline},
    {110, tensor_core},
    {120, tensor_core_hopper},
    {140, ordered},
};
static_assert(match(kMatmulLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::matmul

bool torch_reductions::cuda::ladder::matmul(int64_t variant, const MatmulArgs& args, Context& context) {
  return run(matmul::kLaunchers, variant == 0 ? kMatmulAuto : variant, args, context);
}
