// The CPU's rungs of the ladder of matrix products, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cpu::matmul {
namespace {

constexpr Launcher<MatmulArgs, const Threads> kLaunchers[] = {
    {10, sequential},
    {20, blocked},
    {30, hopper_model},
    {140, ordered},
};
static_assert(match(kMatmulLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cpu::matmul

bool torch_reductions::cpu::ladder::matmul(int64_t variant, const MatmulArgs& args, const Threads& threads) {
  return run(matmul::kLaunchers, variant == 0 ? kMatmulAuto : variant, args, threads);
}
