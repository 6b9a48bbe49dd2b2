// The GPU's rungs of the reduce ladder, by number.
#include "ladder.h"

#include "../../common/launchers.h"

namespace torch_reductions::cuda::reduce {
namespace {

template <void (*rung)(const ReduceArgs&, Context&, int), int number>
void run_in_blocks(const ReduceArgs& args, Context& context) {
  rung(args, context, value_of(kReduceLadder, number).x);
}
template <void (*rung)(const ReduceArgs&, Context&, int), int number>
constexpr Launcher<ReduceArgs, Context> in_blocks{number, run_in_blocks<rung, number>};

constexpr Launcher<ReduceArgs, Context> kLaunchers[] = {
    in_blocks<neighbored_divergent, 30>,
    in_blocks<neighbored_divergent, 31>,
    in_blocks<neighbored_divergent, 32>,
    in_blocks<neighbored_divergent, 33>,
    in_blocks<neighbored_divergent, 34>,
    in_blocks<neighbored_compact, 40>,
    in_blocks<neighbored_compact, 41>,
    in_blocks<neighbored_compact, 42>,
    in_blocks<neighbored_compact, 43>,
    in_blocks<neighbored_compact, 44>,
    in_blocks<interleaved_pairs, 50>,
    in_blocks<interleaved_pairs, 51>,
    in_blocks<interleaved_pairs, 52>,
    in_blocks<interleaved_pairs, 53>,
    in_blocks<interleaved_pairs, 54>,
    {60, unrolled_blocks_2},
    {61, unrolled_blocks_4},
    {62, unrolled_blocks_8},
    in_blocks<unrolled_last_warp, 70>,
    in_blocks<unrolled_last_warp, 71>,
    in_blocks<unrolled_last_warp, 72>,
    in_blocks<unrolled_last_warp, 73>,
    in_blocks<unrolled_last_warp, 74>,
    in_blocks<unrolled_complete, 80>,
    in_blocks<unrolled_complete, 81>,
    in_blocks<unrolled_complete, 82>,
    in_blocks<unrolled_complete, 83>,
    in_blocks<unrolled_complete, 84>,
    in_blocks<shared_divergent, 90>,
    in_blocks<shared_divergent, 91>,
    in_blocks<shared_divergent, 92>,
    in_blocks<shared_divergent, 93>,
    in_blocks<shared_divergent, 94>,
    in_blocks<shared_bank_conflicts, 100>,
    in_blocks<shared_bank_conflicts, 101>,
    in_blocks<shared_bank_conflicts, 102>,
    in_blocks<shared_bank_conflicts, 103>,
    in_blocks<shared_bank_conflicts, 104>,
    in_blocks<shared_sequential, 110>,
    in_blocks<shared_sequential, 111>,
    in_blocks<shared_sequential, 112>,
    in_blocks<shared_sequential, 113>,
    in_blocks<shared_sequential, 114>,
    in_blocks<shared_first_add, 120>,
    in_blocks<shared_first_add, 121>,
    in_blocks<shared_first_add, 122>,
    in_blocks<shared_first_add, 123>,
    in_blocks<shared_first_add, 124>,
    in_blocks<shared_last_warp, 130>,
    in_blocks<shared_last_warp, 131>,
    in_blocks<shared_last_warp, 132>,
    in_blocks<shared_last_warp, 133>,
    in_blocks<shared_last_warp, 134>,
    in_blocks<shared_complete, 135>,
    in_blocks<shared_complete, 136>,
    in_blocks<shared_complete, 137>,
    in_blocks<shared_complete, 138>,
    in_blocks<shared_complete, 139>,
    in_blocks<warp_shuffle, 140>,
    in_blocks<warp_shuffle, 141>,
    in_blocks<warp_shuffle, 142>,
    in_blocks<warp_shuffle, 143>,
    in_blocks<warp_shuffle, 144>,
    in_blocks<single_pass, 150>,
    in_blocks<single_pass, 151>,
    in_blocks<single_pass, 152>,
    in_blocks<single_pass, 153>,
    in_blocks<single_pass, 154>,
    {160, cub_reduce},
    {170, ordered},
};
static_assert(match(kReduceLadder, kCuda, kLaunchers), "the launchers are the ladder's rungs, in its order");

}  // namespace
}  // namespace torch_reductions::cuda::reduce

bool torch_reductions::cuda::ladder::reduce(int64_t variant, const ReduceArgs& args, Context& context) {
  return run(reduce::kLaunchers, variant == 0 ? kReduceAuto : variant, args, context);
}
