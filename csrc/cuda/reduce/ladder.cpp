#include "ladder.h"

#include <iterator>

#include "../../common/ladder.h"

namespace torch_reductions::cuda {
namespace {

struct Launcher {
  int number;
  void (*run)(const ReduceArgs& args, Context& context);
};

constexpr Launcher kLaunchers[] = {
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

// Both lists are in the order of the numbers.
constexpr bool matches_the_table() {
  size_t i = 0;
  for (const Rung& rung : kReduceLadder) {
    if (!(rung.devices & kCuda)) continue;
    if (i == std::size(kLaunchers) || kLaunchers[i++].number != rung.number) return false;
  }
  return i == std::size(kLaunchers);
}
static_assert(int(std::size(kLaunchers)) == count(kReduceLadder, kCuda), "a rung of the table has no launcher");
static_assert(matches_the_table(), "a launcher's number is not that of its rung");

}  // namespace

bool reduce(int64_t variant, const ReduceArgs& args, Context& context) {
  const int64_t number = variant == 0 ? kReduceAuto : variant;
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.number == number) {
      launcher.run(args, context);
      return true;
    }
  }
  return false;
}

}  // namespace torch_reductions::cuda
