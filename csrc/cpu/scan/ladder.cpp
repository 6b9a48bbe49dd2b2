// The CPU's rungs of the scan ladder, by number.
#include "ladder.h"

#include <iterator>

#include "../../common/ladder.h"

namespace torch_reductions::cpu {
namespace {

struct Launcher {
  int number;
  void (*run)(const ScanArgs&, const Threads&);
};

constexpr Launcher kLaunchers[] = {{10, sequential}, {20, threaded}, {90, ordered}};

constexpr bool matches_the_ladder() {
  size_t i = 0;
  for (const Rung& rung : kScanLadder) {
    if ((rung.devices & kCpu) == 0) continue;
    if (i == std::size(kLaunchers) || kLaunchers[i++].number != rung.number) return false;
  }
  return i == std::size(kLaunchers);
}
static_assert(std::size(kLaunchers) == count(kScanLadder, kCpu), "a rung of the CPU without a launcher, or too many");
static_assert(matches_the_ladder(), "the launchers stand in the ladder's order, under the ladder's numbers");

}  // namespace

bool scan(int64_t variant, const ScanArgs& args, const Threads& threads) {
  const int64_t number = variant == 0 ? kScanAuto : variant;
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.number == number) return launcher.run(args, threads), true;
  }
  return false;
}

}  // namespace torch_reductions::cpu
