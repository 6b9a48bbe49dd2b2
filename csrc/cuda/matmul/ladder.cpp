// The GPU's rungs of the ladder of matrix products, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::matmul {
namespace {

constexpr Launcher<MatmulArgs, Context> kLaunchers[] = {
    {40, one_element},     {50, register_tile_1},  {51, register_tile_2},      {52, register_tile_4},
    {53, register_tile_8}, {54, register_tile_16}, {55, register_tile_32},     {56, register_tile_64},
    {60, shared_tile_1},   {61, shared_tile_2},    {62, shared_tile_4},        {63, shared_tile_8},
    {64, shared_tile_16},  {65, shared_tile_32},   {70, shared_register_tile}, {80, vector_loads},
    {90, swizzled},        {100, async_pipeline},  {110, tensor_core},         {120, tensor_core_hopper},
    {140, ordered},
};
static_assert(match(kMatmulLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::matmul

bool torch_reductions::cuda::ladder::matmul(int64_t variant, const MatmulArgs& args, Context& context) {
  return run(matmul::kLaunchers, variant == 0 ? kMatmulAuto : variant, args, context);
}
