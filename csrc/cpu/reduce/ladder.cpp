// The CPU's rungs of the reduce ladder, by number.
#include "ladder.h"

#include <iterator>

#include "../../common/ladder.h"

namespace torch_reductions::cpu {
namespace {

struct Launcher {
  int number;
  void (*run)(const ReduceArgs&, const Threads&);
};

constexpr Launcher kLaunchers[] = {{10, sequential}, {20, threaded}, {170, ordered}};

constexpr bool matches_the_ladder() {
  size_t i = 0;
  for (const Rung& rung : kReduceLadder) {
    if ((rung.devices & kCpu) == 0) continue;
    if (i == std::size(kLaunchers) || kLaunchers[i++].number != rung.number) return false;
  }
  return i == std::size(kLaunchers);
}
static_assert(std::size(kLaunchers) == count(kReduceLadder, kCpu), "a rung of the CPU without a launcher, or too many");
static_assert(matches_the_ladder(), "the launchers stand in the ladder's order, under the ladder's numbers");

}  // namespace

bool reduce(int64_t variant, const ReduceArgs& args, const Threads& threads) {
  const int64_t number = variant == 0 ? kReduceAuto : variant;
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.number == number) return launcher.run(args, threads), true;
  }
  return false;
}

}  // namespace torch_reductions::cpu
