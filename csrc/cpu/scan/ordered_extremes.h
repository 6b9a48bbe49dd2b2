// Running maxima and minima and their indices. The order of operations does not affect them: they go from left to
// right.
#pragma once
#include "../../common/operators.h"  // Indexed, and no function of it
#include "ordered_columns.h"
#include "ordered_rows.h"

namespace torch_reductions::cpu::scan {
namespace {

// Whether x replaces the best so far. Among equal values, and among NaN, the last one wins.
template <bool kMin, class C>
ALWAYS_INLINE bool replaces(C x, C best) {
  return (kMin ? x <= best : x >= best) | (x != x);
}

template <bool kMin, class C>
constexpr C kWorst = kMin ? kMost<C> : kLeast<C>;

constexpr int kLook = 32;  // elements that are compared at once: in random data most groups change nothing

template <bool kMin, class C>
ALWAYS_INLINE bool any_replaces(const C* x, C best) {
  int any = 0;
  for (int i = 0; i < kLook; i++) any |= replaces<kMin>(x[i], best);
  return any;
}

template <bool kMin, class C, class S>
void extreme_rows(const ScanStrip& s, const Indexed<C>* bases) {
  alignas(64) C in[kScanChunk], out[kScanChunk];
  alignas(64) int64_t at[kScanChunk];
  for (int64_t line = 0; line < s.lines; line++) {
    const S* input = static_cast<const S*>(s.input) + line * s.input_line;
    S* output = static_cast<S*>(s.output) + line * s.output_line;
    int64_t* indices = s.indices + line * s.output_line;
    C best = bases ? bases[line].value : kWorst<kMin, C>;
    int64_t index = bases ? bases[line].index : -1;
    for (int64_t k = 0; k < s.length; k += kScanChunk) {
      const int64_t n = s.length - k < kScanChunk ? s.length - k : kScanChunk;
      const C* x = contiguous<C>(input, s.input_step, k, n, in);
      C* values = out;
      int64_t* places = s.output_step == 1 ? indices + k : at;
      if constexpr (std::is_same_v<C, S>) {
        if (s.output_step == 1) values = output + k;
      }
      for (int64_t i = 0; i < n; i += kLook) {
        const int64_t end = n - i < kLook ? n : i + kLook;
        if (end == i + kLook && !any_replaces<kMin>(x + i, best)) {
          for (int64_t j = i; j < i + kLook; j++) values[j] = best;
          for (int64_t j = i; j < i + kLook; j++) places[j] = index;
          continue;
        }
        for (int64_t j = i; j < end; j++) {
          if (replaces<kMin>(x[j], best)) {
            best = x[j];  // a masked element has the worst value of the type, which another one may have too
            if (!s.hides(line, k + j)) index = s.index + (k + j) * s.index_step;
          }
          values[j] = best, places[j] = index;
        }
      }
      if (values == out) narrow(out, n, output + k * s.output_step, s.output_step);
      if (places == at) narrow(at, n, indices + k * s.output_step, s.output_step);
    }
  }
}

template <bool kMin, class C, class S>
void extreme_columns(const ScanStrip& s, const Indexed<C>* bases) {
  alignas(64) C in[reduce::kStrip], best[reduce::kStrip];
  alignas(64) int64_t at[reduce::kStrip];
  for (int64_t i = 0; i < s.lines; i++) {
    best[i] = bases ? bases[i].value : kWorst<kMin, C>;
    at[i] = bases ? bases[i].index : -1;
  }
  for (int64_t k = 0; k < s.length; k++) {
    const C* x = contiguous<C>(static_cast<const S*>(s.input) + k * s.input_step, s.input_line, 0, s.lines, in);
    const int64_t index = s.index + k * s.index_step;
    const auto look = [&](auto takes_part) {
      for (int64_t i = 0; i < s.lines; i++) {  // the compiler vectorizes this
        const bool replace = replaces<kMin>(x[i], best[i]);
        best[i] = replace ? x[i] : best[i];
        at[i] = (replace & takes_part(i)) ? index : at[i];
      }
    };
    if (s.mask) look([&](int64_t i) { return !s.hides(i, k); });
    else look([](int64_t) { return true; });
    narrow(best, s.lines, static_cast<S*>(s.output) + k * s.output_step, s.output_line);
    narrow(at, s.lines, s.indices + k * s.output_step, s.output_line);
  }
}

}  // namespace
}  // namespace torch_reductions::cpu::scan
