// The GPU's rungs of the reduce ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::reduce {
namespace {

template <auto rung, int number>
constexpr Launcher<ReduceArgs, Context> with_value{number, run_with_value<rung, kReduceLadder, number>};

constexpr Launcher<ReduceArgs, Context> kLaunchers[] = {
    with_value<neighbored_divergent, 30>,
    with_value<neighbored_divergent, 31>,
    with_value<neighbored_divergent, 32>,
    with_value<neighbored_divergent, 33>,
    with_value<neighbored_divergent, 34>,
    with_value<neighbored_compact, 40>,
    with_value<neighbored_compact, 41>,
    with_value<neighbored_compact, 42>,
    with_value<neighbored_compact, 43>,
    with_value<neighbored_compact, 44>,
    with_value<interleaved_pairs, 50>,
    with_value<interleaved_pairs, 51>,
    with_value<interleaved_pairs, 52>,
    with_value<interleaved_pairs, 53>,
    with_value<interleaved_pairs, 54>,
    {60, unrolled_blocks_2},
    {61, unrolled_blocks_4},
    {62, unrolled_blocks_8},
    with_value<unrolled_last_warp, 70>,
    with_value<unrolled_last_warp, 71>,
    with_value<unrolled_last_warp, 72>,
    with_value<unrolled_last_warp, 73>,
    with_value<unrolled_last_warp, 74>,
    with_value<unrolled_complete, 80>,
    with_value<unrolled_complete, 81>,
    with_value<unrolled_complete, 82>,
    with_value<unrolled_complete, 83>,
    with_value<unrolled_complete, 84>,
    with_value<shared_divergent, 90>,
    with_value<shared_divergent, 91>,
    with_value<shared_divergent, 92>,
    with_value<shared_divergent, 93>,
    with_value<shared_divergent, 94>,
    with_value<shared_bank_conflicts, 100>,
    with_value<shared_bank_conflicts, 101>,
    with_value<shared_bank_conflicts, 102>,
    with_value<shared_bank_conflicts, 103>,
    with_value<shared_bank_conflicts, 104>,
    with_value<shared_sequential, 110>,
    with_value<shared_sequential, 111>,
    with_value<shared_sequential, 112>,
    with_value<shared_sequential, 113>,
    with_value<shared_sequential, 114>,
    with_value<shared_first_add, 120>,
    with_value<shared_first_add, 121>,
    with_value<shared_first_add, 122>,
    with_value<shared_first_add, 123>,
    with_value<shared_first_add, 124>,
    with_value<shared_last_warp, 130>,
    with_value<shared_last_warp, 131>,
    with_value<shared_last_warp, 132>,
    with_value<shared_last_warp, 133>,
    with_value<shared_last_warp, 134>,
    with_value<shared_complete, 135>,
    with_value<shared_complete, 136>,
    with_value<shared_complete, 137>,
    with_value<shared_complete, 138>,
    with_value<shared_complete, 139>,
    with_value<warp_shuffle, 140>,
    with_value<warp_shuffle, 141>,
    with_value<warp_shuffle, 142>,
    with_value<warp_shuffle, 143>,
    with_value<warp_shuffle, 144>,
    with_value<single_pass, 150>,
    with_value<single_pass, 151>,
    with_value<single_pass, 152>,
    with_value<single_pass, 153>,
    with_value<single_pass, 154>,
    {160, cub_reduce},
    {170, ordered},
};
static_assert(match(kReduceLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::reduce

bool torch_reductions::cuda::ladder::reduce(int64_t variant, const ReduceArgs& args, Context& context) {
  return run(reduce::kLaunchers, variant == 0 ? kReduceAuto : variant, args, context);
}
