// What 020_ordered.cpp, which plans, asks of the vector code, which is compiled once for each kind of processor.
#pragma once
#include "../../common/args.h"

namespace torch_reductions::cpu {

// Elements of neighbouring lines; strides in elements, a step is negative in a reverse recurrence.
struct RecurInput {
  const void* first;  // element of the first line
  int64_t line, step;
};

// Neighbouring lines, in neighbouring places of the output.
struct RecurStrip {
  RecurInput gates, tokens;
  const void* initial;  // of these lines, side by side, or null
  void* output;         // where the result of the first element of the first line goes
  int64_t output_step;
  int64_t lines, length;  // 1 to kRecurStrip, at least 1
};
inline constexpr int64_t kRecurStrip = 128;

using RecurLines = void (*)(const RecurStrip& strip);

struct RecurrenceKernels {
  RecurLines recur[kDtypes];
};
extern const RecurrenceKernels recurrence_baseline, recurrence_avx2, recurrence_avx512;

}  // namespace torch_reductions::cpu
