// ordered
// Changes: a scan of pairs: an element is the step h -> g h + t, and steps are joined as a balanced tree, whose shape
//          the position alone decides. This is what auto runs.
// Costs:   six operations per element instead of two.
// Gains:   the same bits for any layout, processor and number of threads, and on the GPU; no chain of operations.
// Order:   Fold(i + 1), docs/order.md; the initial state is applied last.
// Needs:   any processor; AVX2 and AVX-512 are used where available. Each line has one thread.
// See:     ordered_kernels.h, the vector code; Blelloch, Prefix Sums and Their Applications, 1990, section 1.4.
#include <algorithm>

#include "../../common/ceil_div.h"
#include "../processor.h"
#include "ladder.h"
#include "ordered.h"
#include "output.h"

namespace torch_reductions::cpu::recurrence {
namespace {

const RecurrenceKernels& recurrence_kernels() {
#ifdef __x86_64__
  static constexpr const RecurrenceKernels* kCompiled[] = {&recurrence_baseline, &recurrence_avx2, &recurrence_avx512};
  return *kCompiled[int(processor())];
#else
  return recurrence_baseline;
#endif
}

constexpr int64_t kLeastWidth = 16;  // lines of a strip, if there are so many
constexpr int64_t kStripsPerThread = 4;

}  // namespace

void ordered(const RecurrenceArgs& args, const Threads& threads) {
  const bool is_carried = args.before_gates || args.total_gates;
  const RecurrenceKernels& kernels = recurrence_kernels();
  const RecurLines recur = (is_carried ? kernels.recur_carried : kernels.recur)[int(args.dtype)];
  const int64_t size = size_of(args.dtype), elements = args.outer * args.length * args.inner;
  const RecurCarried carried{args.before_gates, args.before_tokens, args.total_gates, args.total_tokens};
  // As wide as possible, but with enough strips for the threads.
  int64_t width = std::min(args.inner, kRecurStrip);
  while (width / 2 >= kLeastWidth && args.outer * ceil_div(args.inner, width) < kStripsPerThread * threads.count) {
    width /= 2;
  }
  const int64_t strips = ceil_div(args.inner, width), tasks = args.outer * strips;
  const Strides to = output_strides(args);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; task++) {
      const int64_t outer = task / strips, inner = task % strips * width;
      const int64_t line = outer * args.inner + inner;
      const auto at = [&](const void* data, const Strides& strides) {
        return static_cast<const char*>(data) + first_of(args, outer, inner, strides) * size;
      };
      recur(
          {.gates = {at(args.gates, args.gate_strides), args.gate_strides.inner, step_of(args, args.gate_strides)},
           .tokens = {at(args.tokens, args.token_strides), args.token_strides.inner, step_of(args, args.token_strides)},
           .initial = args.initial ? static_cast<const char*>(args.initial) + line * size : nullptr,
           .output = static_cast<char*>(args.output) + first_of(args, outer, inner, to) * size,
           .output_step = step_of(args, to),
           .lines = std::min(width, args.inner - inner),
           .length = args.length,
           .first_line = line,
           .carried = is_carried ? &carried : nullptr});
    }
  };
  if (tasks == 1 || threads.count == 1 || elements <= kGrain) return body(0, tasks);
  threads.parallel_for(0, tasks, std::max<int64_t>(kGrain * tasks / elements, 1), body);
}

}  // namespace torch_reductions::cpu::recurrence
