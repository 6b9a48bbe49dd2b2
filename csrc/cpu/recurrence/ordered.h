// The interface between 020_ordered.cpp, which plans, and the vector code, which is compiled per processor.
#pragma once
#include "../../common/args.h"

namespace torch_reductions::cpu::recurrence {

// Elements of neighbouring lines; strides in elements. The step is negative in a reverse recurrence.
struct RecurInput {
  const void* first;  // element of the first line
  int64_t line, step;
};

// What a recurrence goes on from and the totals that it gives, as in RecurrenceArgs: accumulators of all lines, or null.
struct RecurCarried {
  const void *before_gates, *before_tokens;
  void *total_gates, *total_tokens;
};

// Neighbouring lines, which are neighbours in the output too.
struct RecurStrip {
  RecurInput gates, tokens;
  const void* initial;  // one per line, contiguous, or null
  void* output;         // of the first element of the first line
  int64_t output_step;
  int64_t lines, length;        // 1 to kRecurStrip, at least 1
  int64_t first_line;           // the first one's number among all
  const RecurCarried* carried;  // null: nothing came before, and nobody asks for totals
};
inline constexpr int64_t kRecurStrip = 128;

using RecurLines = void (*)(const RecurStrip& strip);

struct RecurrenceKernels {
  RecurLines recur[kDtypes], recur_carried[kDtypes];  // recur_carried: of strips with `carried`
};
extern const RecurrenceKernels recurrence_baseline, recurrence_avx2, recurrence_avx512;

}  // namespace torch_reductions::cpu::recurrence
