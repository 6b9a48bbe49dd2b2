// The CPU's rungs of the recurrence ladder, by number.
#include "ladder.h"

#include <atomic>

#include "../../common/launchers.h"
#include "../segments.h"

namespace torch_reductions::cpu::recurrence {
namespace {

constexpr Launcher<RecurrenceArgs, const Threads> kLaunchers[] = {{10, sequential}, {20, ordered}};
static_assert(match(kRecurrenceLadder, kCpu, kLaunchers), "the launchers are the ladder's rungs, in its order");

// Segment s of line `outer`, as a call without segments.
RecurrenceArgs segment_of(const RecurrenceArgs& args, int64_t outer, int64_t s) {
  RecurrenceArgs alone = args;
  const int64_t begin = args.segments.begin(s);
  const auto at = [&](const void* data, int64_t element) {
    return static_cast<const char*>(data) + element * size_of(args.dtype);
  };
  const auto first = [&](const Strides& strides) { return outer * strides.outer + begin * strides.length; };
  alone.segments = {};
  alone.outer = 1;
  alone.length = args.segments.end(s) - begin;
  alone.gates = at(args.gates, first(args.gate_strides));
  alone.tokens = at(args.tokens, first(args.token_strides));
  alone.initial = args.initial ? at(args.initial, (outer * args.segments.count + s) * args.inner) : nullptr;
  alone.output = const_cast<char*>(at(args.output, (outer * args.length + begin) * args.inner));
  return alone;
}

}  // namespace
}  // namespace torch_reductions::cpu::recurrence

bool torch_reductions::cpu::ladder::recurrence(int64_t variant, const RecurrenceArgs& args, const Threads& threads) {
  if (variant == 0) variant = kRecurrenceAuto;
  if (args.segments.offsets == nullptr) return run(recurrence::kLaunchers, variant, args, threads);
  std::atomic<bool> found{true};
  for_each_segment(args.segments, args.outer, args.inner, threads, [&](int64_t outer, int64_t s, const Threads& some) {
    if (!run(recurrence::kLaunchers, variant, recurrence::segment_of(args, outer, s), some)) found = false;
  });
  return found;
}
