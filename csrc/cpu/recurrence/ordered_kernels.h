// The vector code of `ordered`: each ordered_*.cpp compiles it for one processor.
//
// Eight elements at a time: their tree is in registers, and a binary counter joins it to what came before. The same code
// serves vectors of neighbouring lines, down columns, and a line alone, along which the eight are neighbours.
#pragma once
#include "../vector.h"
#include "ordered.h"
#include "output.h"

namespace torch_reductions::cpu {
namespace {

constexpr int kGroupRows = 8;
constexpr int kGroupLevels = 48;
constexpr int kLinePitch = kRecurStrip + 16;  // from row to row of a buffer; not a power of two, for the cache's sake
constexpr int kAlongLine = 1024;              // elements of a line that are converted at a time

// A step in every lane, or one.
template <class V>
struct Steps {
  V gate, token;
};
template <class V>
ALWAYS_INLINE Steps<V> then(Steps<V> left, Steps<V> right) {
  return {right.gate * left.gate, right.gate * left.token + right.token};
}
// The same where `left` may be missing: it is selected, not computed with (operators.h).
template <class V>
ALWAYS_INLINE Steps<V> after(bool missing, Steps<V> left, Steps<V> right) {
  return missing ? right : then(left, right);
}

template <class V, class A>
ALWAYS_INLINE V read(const A* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Rows of accumulators in memory: gates or tokens, and from one row to the next.
template <class A>
struct Rows {
  const A* at;
  int64_t pitch;
};

// Of Lines lines. At level l waits a block of 2^l groups, and the fold of all that stands before it.
template <class A, int Lines>
struct LinearScan {
  struct Row {
    A gates[Lines], tokens[Lines];

    template <class V>
    ALWAYS_INLINE Steps<V> get(int64_t i) const {
      return {read<V>(gates + i), read<V>(tokens + i)};
    }
    template <class V>
    ALWAYS_INLINE void set(int64_t i, Steps<V> v) {
      __builtin_memcpy(gates + i, &v.gate, sizeof(V));
      __builtin_memcpy(tokens + i, &v.token, sizeof(V));
    }
  };
  alignas(64) Row waiting[kGroupLevels], before[kGroupLevels], base;
  alignas(64) A initial[Lines];
  bool has_initial;

  // Group number n of the lines that V holds: what waits for them stands at i, their elements and results at p and q.
  template <class V>
  ALWAYS_INLINE void group(int64_t n, int64_t i, Rows<A> g, Rows<A> t, A* q, int64_t out) {
    const int levels = __builtin_ctzll(~uint64_t(n));
    if (levels >= kGroupLevels) __builtin_unreachable();  // no tensor is as large; without it GCC warns
    const bool first = n == 0, alone = n + 1 == int64_t(1) << levels;
    Steps<V> x[kGroupRows];
    for (int r = 0; r < kGroupRows; r++) x[r] = {read<V>(g.at + r * g.pitch), read<V>(t.at + r * t.pitch)};
    const Steps<V> x01 = then(x[0], x[1]), x03 = then(x01, then(x[2], x[3]));
    const Steps<V> x45 = then(x[4], x[5]), x47 = then(x45, then(x[6], x[7]));
    const Steps<V> f0 = base.template get<V>(i), f2 = after(first, f0, x01), f4 = after(first, f0, x03);
    const Steps<V> f6 = then(f4, x45);
    Steps<V> total = then(x03, x47);
    for (int level = 0; level < levels; level++) total = then(waiting[level].template get<V>(i), total);
    waiting[levels].set(i, total);
    const Steps<V> f8 = after(alone, before[levels].template get<V>(i), total);
    for (int level = 0; level < levels; level++) before[level].set(i, f8);
    base.set(i, f8);
    const Steps<V> folds[] = {after(first, f0, x[0]), f2, then(f2, x[2]), f4, then(f4, x[4]), f6, then(f6, x[6]), f8};
    const V h = read<V>(initial + i);
    for (int r = 0; r < kGroupRows; r++) {
      const V result = has_initial ? folds[r].gate * h + folds[r].token : folds[r].token;
      __builtin_memcpy(q + r * out, &result, sizeof result);
    }
  }
};

// What a fold of nothing would be is read, and not used: it is any number.
template <class A, int Lines>
ALWAYS_INLINE void begin(LinearScan<A, Lines>& scan, bool has_initial, int64_t length) {
  const int64_t groups = (length + kGroupRows - 1) / kGroupRows;
  int levels = 0;
  while (groups >> levels) levels++;
  __builtin_memset(scan.before, 0, sizeof(scan.before[0]) * (levels + 1));
  __builtin_memset(&scan.base, 0, sizeof scan.base);
  __builtin_memset(scan.initial, 0, sizeof(A) * Lines);
  scan.has_initial = has_initial;
}

// A line alone.
template <class A, class S>
void recur_line(const RecurStrip& s, int64_t line) {
  alignas(64) A gates[kAlongLine], tokens[kAlongLine], out[kAlongLine];
  LinearScan<A, 1> scan;
  begin(scan, s.initial != nullptr, s.length);
  if (s.initial) scan.initial[0] = widen(static_cast<const S*>(s.initial)[line]);
  const S* const g = static_cast<const S*>(s.gates.first) + line * s.gates.line;
  const S* const t = static_cast<const S*>(s.tokens.first) + line * s.tokens.line;
  S* const output = static_cast<S*>(s.output) + line;
  for (int64_t k = 0; k < s.length; k += kAlongLine) {
    const int64_t n = s.length - k < kAlongLine ? s.length - k : kAlongLine;
    widen(g + k * s.gates.step, s.gates.step, n, gates);
    widen(t + k * s.tokens.step, s.tokens.step, n, tokens);
    for (int64_t i = n; i % kGroupRows != 0; i++) gates[i] = tokens[i] = A(0);  // anything: it comes behind all results
    for (int64_t i = 0; i < n; i += kGroupRows) {
      scan.template group<A>((k + i) / kGroupRows, 0, {gates + i, 1}, {tokens + i, 1}, out + i, 1);
    }
    narrow(out, n, output + k * s.output_step, s.output_step);
  }
}

// Eight rows of an input as accumulators, all lanes of whole vectors readable: the input itself where it is that already.
template <class A, class S>
ALWAYS_INLINE Rows<A> rows_of(const RecurInput& input, const RecurStrip& s, int64_t k, int64_t rows, A* buffer) {
  const S* from = static_cast<const S*>(input.first) + k * input.step;
  if constexpr (std::is_same_v<A, S>) {
    if (input.line == 1 && rows == kGroupRows) return {from, input.step};
  }
  for (int64_t r = 0; r < rows; r++) widen(from + r * input.step, input.line, s.lines, buffer + r * kLinePitch);
  return {buffer, kLinePitch};
}

// Lines side by side, at least as many as a vector has lanes.
template <class A, class S>
void recur_columns(const RecurStrip& s) {
  constexpr int W = kLanes<A>;
  alignas(64) A gates[kGroupRows * kLinePitch] = {}, tokens[kGroupRows * kLinePitch] = {}, out[kGroupRows * kLinePitch];
  LinearScan<A, kLinePitch> scan;
  begin(scan, s.initial != nullptr, s.length);
  if (s.initial) {
    // Vectors overlap in memory, not in the buffers: lane i + l of those is line column(i) + l.
    for (int64_t i = 0; i < s.lines; i += W) {
      widen(static_cast<const S*>(s.initial) + column<A>(i, s.lines), 1, W, scan.initial + i);
    }
  }
  for (int64_t k = 0; k < s.length; k += kGroupRows) {
    const int64_t rows = s.length - k < kGroupRows ? s.length - k : kGroupRows;
    const Rows<A> g = rows_of<A, S>(s.gates, s, k, rows, gates), t = rows_of<A, S>(s.tokens, s, k, rows, tokens);
    A* q = out;
    int64_t pitch = kLinePitch;
    if constexpr (std::is_same_v<A, S>) {
      if (rows == kGroupRows) q = static_cast<A*>(s.output) + k * s.output_step, pitch = s.output_step;
    }
    for (int64_t i = 0; i < s.lines; i += W) {
      const int64_t j = column<A>(i, s.lines);
      scan.template group<Vector<A>>(k / kGroupRows, i, {g.at + j, g.pitch}, {t.at + j, t.pitch}, q + j, pitch);
    }
    if (q != out) continue;
    S* const output = static_cast<S*>(s.output) + k * s.output_step;
    for (int64_t r = 0; r < rows; r++) narrow(out + r * kLinePitch, s.lines, output + r * s.output_step, 1);
  }
}

template <class S>
void recur_lines(const RecurStrip& s) {
  using A = Accumulator<S>;
  if (s.lines >= kLanes<A>) return recur_columns<A, S>(s);
  for (int64_t line = 0; line < s.lines; line++) recur_line<A, S>(s, line);
}

constexpr RecurrenceKernels make_recurrence_kernels() {
  RecurrenceKernels kernels{};
  for (int dtype = 0; dtype < kDtypes; dtype++) {
    with_float(Dtype(dtype), [&](auto tag) { kernels.recur[dtype] = recur_lines<typename decltype(tag)::type>; });
  }
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu
