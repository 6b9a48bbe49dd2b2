// The vector code of `ordered`: each ordered_*.cpp compiles it for one processor.
//
// Eight elements at a time: their tree is in registers, and a binary counter joins it to what came before. Vectors hold
// neighbouring lines, down columns; of a line alone they hold eights that follow one another.
#pragma once
#include "../vector.h"
#include "ordered.h"
#include "output.h"

namespace torch_reductions::cpu {
namespace {

constexpr int kEight = 8, kLogEight = 3;
constexpr int kEightLevels = 48;
constexpr int kLinePitch = kRecurStrip + 16;  // from row to row of a buffer; not a power of two, for the cache's sake

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

// The tree of eight elements, and the folds of what stands before them and of them.
template <class V>
struct Eight {
  Steps<V> x[kEight], x01, x03, x45, total;

  template <class A>
  ALWAYS_INLINE Eight(Rows<A> g, Rows<A> t) {
    for (int r = 0; r < kEight; r++) x[r] = {read<V>(g.at + r * g.pitch), read<V>(t.at + r * t.pitch)};
    x01 = then(x[0], x[1]), x03 = then(x01, then(x[2], x[3])), x45 = then(x[4], x[5]);
    total = then(x03, then(x45, then(x[6], x[7])));
  }

  // The folds up to each. `first`: nothing stands before; `last`: of all, because where the eight end, larger blocks end.
  ALWAYS_INLINE void folds(bool first, Steps<V> base, Steps<V> last, Steps<V> (&to)[kEight]) const {
    const Steps<V> f2 = after(first, base, x01), f4 = after(first, base, x03), f6 = then(f4, x45);
    to[0] = after(first, base, x[0]), to[1] = f2, to[2] = then(f2, x[2]), to[3] = f4;
    to[4] = then(f4, x[4]), to[5] = f6, to[6] = then(f6, x[6]), to[7] = last;
  }

  // The states after each, row by row.
  template <class A>
  ALWAYS_INLINE void put(bool first, Steps<V> base, Steps<V> last, bool has_initial, V initial, A* q,
                         int64_t pitch) const {
    Steps<V> fold[kEight];
    folds(first, base, last, fold);
    for (int r = 0; r < kEight; r++) {
      const V result = has_initial ? fold[r].gate * initial + fold[r].token : fold[r].token;
      __builtin_memcpy(q + r * pitch, &result, sizeof result);
    }
  }
};

// Steps of Lines lines in memory.
template <class A, int Lines>
struct StepRow {
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

// The blocks before an eight. At level l waits one of 2^l eights, and the fold of all that stands before it.
template <class A, int Lines>
struct Counter {
  alignas(64) StepRow<A, Lines> waiting[kEightLevels], before[kEightLevels], base;

  // What a fold of nothing would be is read, and not used: it is any number.
  ALWAYS_INLINE explicit Counter(int64_t length) {
    int levels = 0;
    while (length >> levels) levels++;
    __builtin_memset(before, 0, sizeof(before[0]) * (levels + 1));
    __builtin_memset(&base, 0, sizeof base);
  }

  // After n eights of the lines that V holds, at i, come 2^from more, of this total; n is a multiple of 2^from. The fold of
  // all of them.
  template <class V>
  ALWAYS_INLINE Steps<V> push(int64_t n, int64_t i, Steps<V> total, int from = 0) {
    const int levels = from + __builtin_ctzll(~uint64_t(n >> from));
    if (levels >= kEightLevels) __builtin_unreachable();  // no tensor is as large; without it GCC warns
    for (int level = from; level < levels; level++) total = then(waiting[level].template get<V>(i), total);
    waiting[levels].set(i, total);
    const Steps<V> fold = after(n >> levels == 0, before[levels].template get<V>(i), total);
    for (int level = 0; level < levels; level++) before[level].set(i, fold);
    base.set(i, fold);
    return fold;
  }
};

// ---------------------------------------------------------------- a line alone

constexpr int kAlong = 128;               // eights at once
constexpr int kAlongPitch = kAlong + 16;  // from row to row, of which row r holds element r of each eight
constexpr int kChunk = kAlong * kEight;   // elements that are converted at a time

template <class A>
ALWAYS_INLINE void eights_to_rows(const A* from, int64_t eights, A* to) {
  for (int64_t i = 0; i < eights; i++) {
    for (int r = 0; r < kEight; r++) to[r * kAlongPitch + i] = from[i * kEight + r];
  }
}

template <class A>
ALWAYS_INLINE void rows_to_eights(const A* from, int64_t eights, A* to) {
  for (int64_t i = 0; i < eights; i++) {
    for (int r = 0; r < kEight; r++) to[i * kEight + r] = from[r * kAlongPitch + i];
  }
}

// One line, and what came before on it.
template <class A>
struct Line {
  Counter<A, 1> counter;
  bool has_initial;
  A initial;

  // Eights of eights that begin at element k, as many as fill vectors, whose lanes are eights.
  __attribute__((noinline)) void vectors(int64_t k, int64_t eights, const A* g, const A* t, A* out) {
    using V = Vector<A>;
    constexpr int W = kLanes<A>;
    alignas(64) A gates[kEight * kAlongPitch], tokens[kEight * kAlongPitch], results[kEight * kAlongPitch];
    StepRow<A, kAlong> totals;
    StepRow<A, kAlong + 1> folds;  // before each eight, and after the last one
    eights_to_rows(g, eights, gates);
    eights_to_rows(t, eights, tokens);
    const auto eight = [&](int64_t i) { return Eight<V>(Rows<A>{gates + i, kAlongPitch}, {tokens + i, kAlongPitch}); };
    for (int64_t i = 0; i < eights; i += W) totals.set(i, eight(i).total);
    folds.set(0, counter.base.template get<A>(0));
    for (int64_t i = 0; i < eights; i += kEight) {  // a tree of eight totals again
      const Eight<A> of_eights(Rows<A>{totals.gates + i, 1}, {totals.tokens + i, 1});
      const Steps<A> base = counter.base.template get<A>(0);
      Steps<A> fold[kEight];
      of_eights.folds(k + i == 0, base, counter.push(k / kEight + i, 0, of_eights.total, kLogEight), fold);
      for (int r = 0; r < kEight; r++) folds.set(i + 1 + r, fold[r]);
    }
    for (int64_t i = 0; i < eights; i += W) {
      eight(i).put(false, folds.template get<V>(i), folds.template get<V>(i + 1), has_initial, splat(initial),
                   results + i, kAlongPitch);
    }
    if (k == 0) {  // nothing stands before the first eight
      const Eight<A> first(Rows<A>{gates, kAlongPitch}, {tokens, kAlongPitch});
      first.put(true, first.total, first.total, has_initial, initial, results, kAlongPitch);
    }
    rows_to_eights(results, eights, out);
  }

  // The eight that begins at element k.
  ALWAYS_INLINE void one(int64_t k, const A* g, const A* t, A* out) {
    const Eight<A> eight(Rows<A>{g, 1}, {t, 1});
    const Steps<A> base = counter.base.template get<A>(0);
    eight.put(k == 0, base, counter.push(k / kEight, 0, eight.total), has_initial, initial, out, 1);
  }
};

template <class A, class S>
void recur_line(const RecurStrip& s, int64_t line) {
  alignas(64) A gates[kChunk], tokens[kChunk], out[kChunk];
  const bool has_initial = s.initial != nullptr;
  const A initial = has_initial ? A(widen(static_cast<const S*>(s.initial)[line])) : A(0);
  Line<A> state{Counter<A, 1>(s.length), has_initial, initial};
  const S* const gate = static_cast<const S*>(s.gates.first) + line * s.gates.line;
  const S* const token = static_cast<const S*>(s.tokens.first) + line * s.tokens.line;
  S* const output = static_cast<S*>(s.output) + line;
  for (int64_t k = 0; k < s.length; k += kChunk) {
    const int64_t n = s.length - k < kChunk ? s.length - k : kChunk;
    const A* const g = contiguous<A>(gate, s.gates.step, k, n, gates);
    const A* const t = contiguous<A>(token, s.tokens.step, k, n, tokens);
    int64_t i = n - n % (kEight * (kLanes<A> > kEight ? kLanes<A> : kEight));
    if (i > 0) state.vectors(k, i / kEight, g, t, out);
    for (; i + kEight <= n; i += kEight) state.one(k + i, g + i, t + i, out + i);
    if (i < n) {  // filled up with anything: it comes behind all results
      A last_gates[kEight] = {}, last_tokens[kEight] = {};
      __builtin_memcpy(last_gates, g + i, sizeof(A) * (n - i));
      __builtin_memcpy(last_tokens, t + i, sizeof(A) * (n - i));
      state.one(k + i, last_gates, last_tokens, out + i);
    }
    narrow(out, n, output + k * s.output_step, s.output_step);
  }
}

// ---------------------------------------------------------------- lines side by side

// Eight rows of an input as accumulators, all lanes of whole vectors readable: the input itself where it is that already.
template <class A, class S>
ALWAYS_INLINE Rows<A> rows_of(const RecurInput& input, const RecurStrip& s, int64_t k, int64_t rows, A* buffer) {
  const S* from = static_cast<const S*>(input.first) + k * input.step;
  if constexpr (std::is_same_v<A, S>) {
    if (input.line == 1 && rows == kEight) return {from, input.step};
  }
  for (int64_t r = 0; r < rows; r++) widen(from + r * input.step, input.line, s.lines, buffer + r * kLinePitch);
  return {buffer, kLinePitch};
}

// Lines side by side, at least as many as a vector has lanes.
template <class A, class S>
void recur_columns(const RecurStrip& s) {
  constexpr int W = kLanes<A>;
  alignas(64) A gates[kEight * kLinePitch] = {}, tokens[kEight * kLinePitch] = {}, out[kEight * kLinePitch];
  alignas(64) A initial[kLinePitch] = {};
  Counter<A, kLinePitch> counter(s.length);
  if (s.initial) {
    // Vectors overlap in memory, not in the buffers: lane i + l of those is line column(i) + l.
    for (int64_t i = 0; i < s.lines; i += W) {
      widen(static_cast<const S*>(s.initial) + column<A>(i, s.lines), 1, W, initial + i);
    }
  }
  for (int64_t k = 0; k < s.length; k += kEight) {
    const int64_t rows = s.length - k < kEight ? s.length - k : kEight;
    const Rows<A> g = rows_of<A, S>(s.gates, s, k, rows, gates), t = rows_of<A, S>(s.tokens, s, k, rows, tokens);
    A* q = out;
    int64_t pitch = kLinePitch;
    if constexpr (std::is_same_v<A, S>) {
      if (rows == kEight) q = static_cast<A*>(s.output) + k * s.output_step, pitch = s.output_step;
    }
    for (int64_t i = 0; i < s.lines; i += W) {
      const int64_t j = column<A>(i, s.lines);
      const Eight<Vector<A>> eight(Rows<A>{g.at + j, g.pitch}, {t.at + j, t.pitch});
      const Steps<Vector<A>> base = counter.base.template get<Vector<A>>(i);
      const Steps<Vector<A>> last = counter.push(k / kEight, i, eight.total);
      eight.put(k == 0, base, last, s.initial != nullptr, load(initial + i), q + j, pitch);
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
