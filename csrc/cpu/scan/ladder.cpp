// The CPU's rungs of the scan ladder, by number.
#include "ladder.h"

#include <atomic>

#include "../../common/launchers.h"
#include "../segments.h"

namespace torch_reductions::cpu::scan {
namespace {

constexpr Launcher<ScanArgs, const Threads> kLaunchers[] = {{10, sequential}, {20, threaded}, {90, ordered}};
static_assert(match(kScanLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

// Segment s of line `outer`, as a call without segments.
ScanArgs segment_of(const ScanArgs& args, int64_t outer, int64_t s) {
  ScanArgs alone = args;
  alone.segments = {};
  alone.front = args.segments.begin(s);
  alone.outer = 1;
  alone.length = alone.results = args.segments.end(s) - alone.front;
  const int64_t from = outer * args.outer_stride + alone.front * args.length_stride;
  const int64_t to = (outer * args.length + alone.front) * args.inner;
  alone.input = static_cast<const char*>(args.input) + from * size_of(args.input_dtype);
  alone.output = static_cast<char*>(args.output) + to * size_of(args.dtype);
  alone.indices = args.indices ? args.indices + to : nullptr;
  if (args.mask.data) alone.mask.data += outer * args.mask.strides.outer + alone.front * args.mask.strides.length;
  return alone;
}

}  // namespace
}  // namespace torch_reductions::cpu::scan

bool torch_reductions::cpu::ladder::scan(int64_t variant, const ScanArgs& args, const Threads& threads) {
  if (variant == 0) variant = kScanAuto;
  if (args.segments.offsets == nullptr) return run(scan::kLaunchers, variant, args, threads);
  std::atomic<bool> found{true};
  for_each_segment(args.segments, args.outer, args.inner, threads, [&](int64_t outer, int64_t s, const Threads& some) {
    if (!run(scan::kLaunchers, variant, scan::segment_of(args, outer, s), some)) found = false;
  });
  return found;
}
