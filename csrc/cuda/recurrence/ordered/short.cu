// Recurrences of short lines, of every floating type.
#include "../../../common/ceil_div.h"
#include "../instances.h"
#include "short_columns.cuh"
#include "short_rows.cuh"

namespace torch_reductions::cuda::recurrence {

namespace {

constexpr int64_t kMostRow = int64_t(kMostShort) << kLogShortRuns;
constexpr int64_t kMostBytes = 1024;  // of a row: half of what a warp of recur_lines holds
constexpr int64_t kNearBytes = 16;    // of lines side by side: those that fill vectors are as fast as columns

// Do gates and tokens fill a part of memory each, so that neighbouring lines fill the same vectors? Not of wide elements
// in too few lines to fill every multiprocessor: there what takes fewer instructions is quicker.
bool are_short_rows(const RecurrenceArgs& args, int64_t size, int64_t sms) {
  const int64_t length = args.length, inner = args.inner, count = args.outer * inner;
  for (const Strides& strides : {args.gate_strides, args.token_strides})
    if (!lie_together(strides, args.outer, length, inner)) return false;
  if (length > kMostRow || length * size > kMostBytes) return false;
  if (size > 2 && length > kMostShort && count * ceil_div(length, int64_t(kMostShort)) < sms * kShortRowThreads)
    return false;
  return inner == 1 || (length > kShort && (inner == 2 || inner * size < kNearBytes));
}

}  // namespace

bool recur_short(const RecurrenceArgs& args, Context& context) {
  const bool in_rows = are_short_rows(args, size_of(args.dtype), multiprocessors(context.device));
  if (args.length == 0 || (!in_rows && args.length > kMostShort)) return false;
  with_storage(args.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) {
      RecurrenceLines lines = lines_of(args, sizeof(T));
      if (in_rows) return launch_short_rows<T>(args.outer, context, lines, args.reverse);
      if (args.reverse) lines.turn_round();
      launch_short_columns<T>(context, lines);
    }
  });
  return true;
}

}  // namespace torch_reductions::cuda::recurrence
