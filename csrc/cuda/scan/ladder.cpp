#include "ladder.h"

#include <iterator>

#include "../../common/ladder.h"

namespace torch_reductions::cuda {
namespace {

struct Launcher {
  int number;
  void (*run)(const ScanArgs& args, Context& context);
};

constexpr Launcher kLaunchers[] = {
    {30, scan_then_fan}, {40, reduce_then_scan}, {50, two_level}, {60, two_level_zero_padded},
    {70, look_back},     {80, cub_scan},         {90, ordered},
};

// Both lists are in the order of the numbers.
constexpr bool matches_the_table() {
  size_t i = 0;
  for (const Rung& rung : kScanLadder) {
    if (!(rung.devices & kCuda)) continue;
    if (i == std::size(kLaunchers) || kLaunchers[i++].number != rung.number) return false;
  }
  return i == std::size(kLaunchers);
}
static_assert(int(std::size(kLaunchers)) == count(kScanLadder, kCuda), "a rung of the table has no launcher");
static_assert(matches_the_table(), "a launcher's number is not that of its rung");

}  // namespace

bool scan(int64_t variant, const ScanArgs& args, Context& context) {
  const int64_t number = variant == 0 ? kScanAuto : variant;
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.number == number) {
      launcher.run(args, context);
      return true;
    }
  }
  return false;
}

}  // namespace torch_reductions::cuda
