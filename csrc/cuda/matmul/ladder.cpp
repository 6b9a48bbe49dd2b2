// The GPU's rungs of the ladder of matrix products, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda {
namespace {

constexpr Launcher<MatmulArgs, Context> kLaunchers[] = {
    {40, one_element}, {110, tensor_core}, {120, tensor_core_hopper}};
static_assert(match(kMatmulLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace

bool matmul(int64_t variant, const MatmulArgs& args, Context& context) {
  return run(kLaunchers, variant == 0 ? kMatmulAuto : variant, args, context);
}

}  // namespace torch_reductions::cuda
