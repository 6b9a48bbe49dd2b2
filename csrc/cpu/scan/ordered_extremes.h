// Maxima and minima and where they stand. Their order cannot be seen, so that they go from left to right.
#pragma once
#include "../../common/operators.h"  // Indexed, and no function of it
#include "ordered_columns.h"

namespace torch_reductions::cpu {
namespace {

// Does x replace the best so far? The last one of equal values does, and of NaN.
template <bool kMin, class C>
ALWAYS_INLINE bool replaces(C x, C best) {
  return (kMin ? x <= best : x >= best) | (x != x);
}

template <bool kMin, class C>
constexpr C kWorst = kMin ? kMost<C> : kLeast<C>;

template <bool kMin, class C, class S>
void extreme_rows(const ScanStrip& s, const Indexed<C>* bases) {
  alignas(64) C in[kNarrowed], out[kNarrowed];
  for (int64_t line = 0; line < s.lines; line++) {
    const S* input = static_cast<const S*>(s.input) + line * s.input_line;
    S* output = static_cast<S*>(s.output) + line * s.output_line;
    int64_t* indices = s.indices + line * s.output_line;
    C best = bases ? bases[line].value : kWorst<kMin, C>;
    int64_t at = bases ? bases[line].index : s.index;
    for (int64_t k = 0; k < s.length; k += kNarrowed) {
      const int64_t n = s.length - k < kNarrowed ? s.length - k : kNarrowed;
      const C* x = contiguous<C>(input, s.input_step, k, n, in);
      for (int64_t i = 0; i < n; i++) {
        if (replaces<kMin>(x[i], best)) best = x[i], at = s.index + (k + i) * s.index_step;  // seldom, or always
        out[i] = best;
        indices[(k + i) * s.output_step] = at;
      }
      narrow(out, n, output + k * s.output_step, s.output_step, s.far);
    }
  }
  if (s.far) finish_streams();
}

template <bool kMin, class C, class S>
void extreme_columns(const ScanStrip& s, const Indexed<C>* bases) {
  alignas(64) C in[kStrip], best[kStrip];
  alignas(64) int64_t at[kStrip];
  for (int64_t i = 0; i < s.lines; i++) {
    best[i] = bases ? bases[i].value : kWorst<kMin, C>;
    at[i] = bases ? bases[i].index : s.index;
  }
  for (int64_t k = 0; k < s.length; k++) {
    const C* x = contiguous<C>(static_cast<const S*>(s.input) + k * s.input_step, s.input_line, 0, s.lines, in);
    const int64_t index = s.index + k * s.index_step;
    for (int64_t i = 0; i < s.lines; i++) {  // vectors, as the compiler makes them
      const bool replace = replaces<kMin>(x[i], best[i]);
      best[i] = replace ? x[i] : best[i];
      at[i] = replace ? index : at[i];
    }
    narrow(best, s.lines, static_cast<S*>(s.output) + k * s.output_step, s.output_line, s.far);
    narrow(at, s.lines, s.indices + k * s.output_step, s.output_line, s.far);
  }
  if (s.far) finish_streams();
}

}  // namespace
}  // namespace torch_reductions::cpu
