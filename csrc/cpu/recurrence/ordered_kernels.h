// The vector code of `ordered`: each ordered_*.cpp compiles it for one processor.
//
// Elements are taken eight at a time: the tree over them is in registers, and a binary counter joins it to what came
// before. Down columns the lanes of a vector are neighbouring lines; along a single line they are successive trees.
#pragma once
#include "../vector.h"
#include "ordered.h"
#include "output.h"

namespace torch_reductions::cpu::recurrence {
namespace {

constexpr int kTree = 8, kTreeLevels = 3;
constexpr int kCounterLevels = 48;
constexpr int kLinePitch = kRecurStrip + 16;  // from row to row of a buffer; not a power of two, for the cache's sake

// The step h -> gate h + token: one, or one per lane.
template <class V>
struct Steps {
  V gate, token;
};
template <class V>
ALWAYS_INLINE Steps<V> compose(Steps<V> left, Steps<V> right) {
  return {right.gate * left.gate, right.gate * left.token + right.token};
}
// The same where `left` may be missing: then `right` is selected, nothing is computed (operators.h).
template <class V>
ALWAYS_INLINE Steps<V> compose_or_right(bool missing, Steps<V> left, Steps<V> right) {
  return missing ? right : compose(left, right);
}

template <class V, class A>
ALWAYS_INLINE V read(const A* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Rows of accumulators in memory, gates or tokens, `pitch` apart.
template <class A>
struct Rows {
  const A* at;
  int64_t pitch;
};

// The tree over kTree elements, and the folds up to each of them.
template <class V>
struct Tree {
  Steps<V> x[kTree], x01, x03, x45, total;

  template <class A>
  ALWAYS_INLINE Tree(Rows<A> g, Rows<A> t) {
    for (int r = 0; r < kTree; r++) x[r] = {read<V>(g.at + r * g.pitch), read<V>(t.at + r * t.pitch)};
    x01 = compose(x[0], x[1]), x03 = compose(x01, compose(x[2], x[3])), x45 = compose(x[4], x[5]);
    total = compose(x03, compose(x45, compose(x[6], x[7])));
  }

  // The folds up to each element. `base` is the fold of the elements before these, and there are none where `first`.
  // The last fold is passed in: larger blocks end here too, so that its tree is another one.
  ALWAYS_INLINE void folds(bool first, Steps<V> base, Steps<V> last, Steps<V> (&to)[kTree]) const {
    const Steps<V> f2 = compose_or_right(first, base, x01), f4 = compose_or_right(first, base, x03),
                   f6 = compose(f4, x45);
    to[0] = compose_or_right(first, base, x[0]), to[1] = f2, to[2] = compose(f2, x[2]), to[3] = f4;
    to[4] = compose(f4, x[4]), to[5] = f6, to[6] = compose(f6, x[6]), to[7] = last;
  }

  // Stores the state after each element, row by row.
  template <class A>
  ALWAYS_INLINE void put(bool first, Steps<V> base, Steps<V> last, bool has_initial, V initial, A* q,
                         int64_t pitch) const {
    Steps<V> fold[kTree];
    folds(first, base, last, fold);
    for (int r = 0; r < kTree; r++) {
      const V result = has_initial ? fold[r].gate * initial + fold[r].token : fold[r].token;
      __builtin_memcpy(q + r * pitch, &result, sizeof result);
    }
  }
};

// One step for each of so many lines, in memory.
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

// The blocks that are complete so far, as a binary counter. waiting[l] is a block of 2^l trees, before[l] the fold of
// everything before it. Continued: a step may stand before the first tree.
template <class A, int Lines, bool Continued>
struct Counter {
  alignas(64) StepRow<A, Lines> waiting[kCounterLevels], before[kCounterLevels], base;

  // The fold of no elements is read, but not used: any number will do.
  ALWAYS_INLINE explicit Counter(int64_t length) {
    int levels = 0;
    while (length >> levels) levels++;
    __builtin_memset(before, 0, sizeof(before[0]) * (levels + 1));
    __builtin_memset(&base, 0, sizeof base);
  }
  // The step before the first tree of line i.
  ALWAYS_INLINE void begin(int64_t i, Steps<A> step, int64_t length) {
    begun_ = true;
    base.set(i, step);
    before[0].set(i, step);
    for (int level = 0; length >> level; level++) before[level + 1].set(i, step);
  }

  ALWAYS_INLINE bool begun() const { return Continued && begun_; }

  // Adds 2^from trees with this total to the n trees, a multiple of 2^from, of the lines in vector i. Returns the fold
  // of all of them.
  template <class V>
  ALWAYS_INLINE Steps<V> push(int64_t n, int64_t i, Steps<V> total, int from = 0) {
    const int levels = from + __builtin_ctzll(~uint64_t(n >> from));
    if (levels >= kCounterLevels) __builtin_unreachable();  // no tensor is as large; without it GCC warns
    for (int level = from; level < levels; level++) total = compose(waiting[level].template get<V>(i), total);
    waiting[levels].set(i, total);
    const Steps<V> fold = compose_or_right(n >> levels == 0 && !begun(), before[levels].template get<V>(i), total);
    for (int level = 0; level < levels; level++) before[level].set(i, fold);
    base.set(i, fold);
    return fold;
  }

 private:
  bool begun_ = false;
};

// ---------------------------------------------------------------- a single line

constexpr int kAlong = 128;                  // trees at once
constexpr int kAlongPitch = kAlong + 16;     // from row to row, row r holds element r of each tree
constexpr int kRecurChunk = kAlong * kTree;  // elements that are converted at a time

template <class A>
ALWAYS_INLINE void trees_to_rows(const A* from, int64_t trees, A* to) {
  for (int64_t i = 0; i < trees; i++) {
    for (int r = 0; r < kTree; r++) to[r * kAlongPitch + i] = from[i * kTree + r];
  }
}

template <class A>
ALWAYS_INLINE void rows_to_trees(const A* from, int64_t trees, A* to) {
  for (int64_t i = 0; i < trees; i++) {
    for (int r = 0; r < kTree; r++) to[i * kTree + r] = from[r * kAlongPitch + i];
  }
}

// The state of one line between chunks.
template <class A, bool Continued>
struct Line {
  Counter<A, 1, Continued> counter;
  bool has_initial;
  A initial;

  ALWAYS_INLINE bool first(int64_t k) const { return k == 0 && !counter.begun(); }

  // The trees from element k on, whole vectors of them: each lane is one tree.
  __attribute__((noinline)) void vectors(int64_t k, int64_t trees, const A* g, const A* t, A* out) {
    using V = Vector<A>;
    constexpr int W = kLanes<A>;
    alignas(64) A gates[kTree * kAlongPitch], tokens[kTree * kAlongPitch], results[kTree * kAlongPitch];
    StepRow<A, kAlong> totals;
    StepRow<A, kAlong + 1> folds;  // before each tree, and after the last one
    trees_to_rows(g, trees, gates);
    trees_to_rows(t, trees, tokens);
    const auto tree = [&](int64_t i) { return Tree<V>(Rows<A>{gates + i, kAlongPitch}, {tokens + i, kAlongPitch}); };
    for (int64_t i = 0; i < trees; i += W) totals.set(i, tree(i).total);
    folds.set(0, counter.base.template get<A>(0));
    for (int64_t i = 0; i < trees; i += kTree) {  // a tree over the totals of kTree trees
      const Tree<A> of_trees(Rows<A>{totals.gates + i, 1}, {totals.tokens + i, 1});
      const Steps<A> base = counter.base.template get<A>(0);
      Steps<A> fold[kTree];
      of_trees.folds(first(k + i), base, counter.push(k / kTree + i, 0, of_trees.total, kTreeLevels), fold);
      for (int r = 0; r < kTree; r++) folds.set(i + 1 + r, fold[r]);
    }
    for (int64_t i = 0; i < trees; i += W) {
      tree(i).put(false, folds.template get<V>(i), folds.template get<V>(i + 1), has_initial, splat(initial),
                  results + i, kAlongPitch);
    }
    if (first(k)) {  // no element is before the first tree
      const Tree<A> first(Rows<A>{gates, kAlongPitch}, {tokens, kAlongPitch});
      first.put(true, first.total, first.total, has_initial, initial, results, kAlongPitch);
    }
    rows_to_trees(results, trees, out);
  }

  // One tree, from element k on.
  ALWAYS_INLINE void one(int64_t k, const A* g, const A* t, A* out) {
    const Tree<A> tree(Rows<A>{g, 1}, {t, 1});
    const Steps<A> base = counter.base.template get<A>(0);
    tree.put(first(k), base, counter.push(k / kTree, 0, tree.total), has_initial, initial, out, 1);
  }
};

// What stands before a line.
template <class A>
ALWAYS_INLINE Steps<A> step_before(const RecurStrip& s, int64_t line) {
  const int64_t i = s.first_line + line;
  return {static_cast<const A*>(s.carried->before_gates)[i], static_cast<const A*>(s.carried->before_tokens)[i]};
}

// Stores the total of a line of 2^k elements: a block of trees at place i of the counter, or, where the line is shorter
// than a tree, its elements, g(r) and t(r).
template <class A, class Counter, class Gate, class Token>
ALWAYS_INLINE void put_total(const RecurStrip& s, int64_t line, const Counter& counter, int64_t i, const Gate& g,
                             const Token& t) {
  Steps<A> total;
  if (s.length >= kTree) {
    total = counter.waiting[__builtin_ctzll(uint64_t(s.length / kTree))].template get<A>(i);
  } else {
    const auto x = [&](int r) { return Steps<A>{g(r), t(r)}; };
    total = x(0);
    if (s.length > 1) total = compose(total, x(1));
    if (s.length > 2) total = compose(total, compose(x(2), x(3)));
  }
  static_cast<A*>(s.carried->total_gates)[s.first_line + line] = total.gate;
  static_cast<A*>(s.carried->total_tokens)[s.first_line + line] = total.token;
}

template <class A, class S, bool Continued>
void recur_line(const RecurStrip& s, int64_t line) {
  alignas(64) A gates[kRecurChunk], tokens[kRecurChunk], out[kRecurChunk];
  const bool has_initial = s.initial != nullptr;
  const A initial = has_initial ? A(widen(static_cast<const S*>(s.initial)[line])) : A(0);
  Line<A, Continued> state{Counter<A, 1, Continued>(s.length), has_initial, initial};
  if (Continued && s.carried->before_gates) state.counter.begin(0, step_before<A>(s, line), s.length);
  const S* const gate = static_cast<const S*>(s.gates.first) + line * s.gates.line;
  const S* const token = static_cast<const S*>(s.tokens.first) + line * s.tokens.line;
  S* const output = static_cast<S*>(s.output) + line;
  for (int64_t k = 0; k < s.length; k += kRecurChunk) {
    const int64_t n = s.length - k < kRecurChunk ? s.length - k : kRecurChunk;
    const A* const g = contiguous<A>(gate, s.gates.step, k, n, gates);
    const A* const t = contiguous<A>(token, s.tokens.step, k, n, tokens);
    int64_t i = n - n % (kTree * (kLanes<A> > kTree ? kLanes<A> : kTree));
    if (i > 0) state.vectors(k, i / kTree, g, t, out);
    for (; i + kTree <= n; i += kTree) state.one(k + i, g + i, t + i, out + i);
    if (i < n) {  // padded: the padding comes after all results
      A last_gates[kTree] = {}, last_tokens[kTree] = {};
      __builtin_memcpy(last_gates, g + i, sizeof(A) * (n - i));
      __builtin_memcpy(last_tokens, t + i, sizeof(A) * (n - i));
      state.one(k + i, last_gates, last_tokens, out + i);
    }
    narrow(out, n, output + k * s.output_step, s.output_step);
  }
  if (Continued && s.carried->total_gates) {
    put_total<A>(
        s, line, state.counter, 0, [&](int r) { return A(widen(gate[r * s.gates.step])); },
        [&](int r) { return A(widen(token[r * s.tokens.step])); });
  }
}

// ---------------------------------------------------------------- lines side by side

// Rows of an input as accumulators, readable in whole vectors: the input itself where it has this form.
template <class A, class S>
ALWAYS_INLINE Rows<A> rows_of(const RecurInput& input, const RecurStrip& s, int64_t k, int64_t rows, A* buffer) {
  const S* from = static_cast<const S*>(input.first) + k * input.step;
  if constexpr (std::is_same_v<A, S>) {
    if (input.line == 1 && rows == kTree) return {from, input.step};
  }
  for (int64_t r = 0; r < rows; r++) widen(from + r * input.step, input.line, s.lines, buffer + r * kLinePitch);
  return {buffer, kLinePitch};
}

// Lines side by side, at least as many as a vector has lanes.
template <class A, class S, bool Continued>
void recur_columns(const RecurStrip& s) {
  constexpr int W = kLanes<A>;
  alignas(64) A gates[kTree * kLinePitch] = {}, tokens[kTree * kLinePitch] = {}, out[kTree * kLinePitch];
  alignas(64) A initial[kLinePitch] = {};
  Counter<A, kLinePitch, Continued> counter(s.length);
  if (s.initial) {
    // The last two vectors overlap in memory, but not in the buffers, where lane i + l is line column(i) + l.
    for (int64_t i = 0; i < s.lines; i += W) {
      widen(static_cast<const S*>(s.initial) + column<A>(i, s.lines), 1, W, initial + i);
    }
  }
  if (Continued && s.carried->before_gates) {
    for (int64_t i = 0; i < s.lines; i += W) {
      for (int64_t lane = 0; lane < W; lane++)
        counter.begin(i + lane, step_before<A>(s, column<A>(i, s.lines) + lane), s.length);
    }
  }
  for (int64_t k = 0; k < s.length; k += kTree) {
    const int64_t rows = s.length - k < kTree ? s.length - k : kTree;
    const Rows<A> g = rows_of<A, S>(s.gates, s, k, rows, gates), t = rows_of<A, S>(s.tokens, s, k, rows, tokens);
    A* q = out;
    int64_t pitch = kLinePitch;
    if constexpr (std::is_same_v<A, S>) {
      if (rows == kTree) q = static_cast<A*>(s.output) + k * s.output_step, pitch = s.output_step;
    }
    for (int64_t i = 0; i < s.lines; i += W) {
      const int64_t j = column<A>(i, s.lines);
      const Tree<Vector<A>> tree(Rows<A>{g.at + j, g.pitch}, {t.at + j, t.pitch});
      const Steps<Vector<A>> base = counter.base.template get<Vector<A>>(i);
      const Steps<Vector<A>> last = counter.push(k / kTree, i, tree.total);
      tree.put(k == 0 && !counter.begun(), base, last, s.initial != nullptr, load(initial + i), q + j, pitch);
    }
    if (q != out) continue;
    S* const output = static_cast<S*>(s.output) + k * s.output_step;
    for (int64_t r = 0; r < rows; r++) narrow(out + r * kLinePitch, s.lines, output + r * s.output_step, 1);
  }
  if (!Continued || s.carried->total_gates == nullptr) return;
  for (int64_t line = 0; line < s.lines; line++) {  // a short line's elements are in the buffers
    const int64_t i = line / W * W;
    put_total<A>(
        s, line, counter, i + line - column<A>(i, s.lines), [&](int r) { return gates[r * kLinePitch + line]; },
        [&](int r) { return tokens[r * kLinePitch + line]; });
  }
}

template <class S, bool Continued>
void recur_lines(const RecurStrip& s) {
  using A = Accumulator<S>;
  if (s.lines >= kLanes<A>) return recur_columns<A, S, Continued>(s);
  for (int64_t line = 0; line < s.lines; line++) recur_line<A, S, Continued>(s, line);
}

constexpr RecurrenceKernels make_recurrence_kernels() {
  RecurrenceKernels kernels{};
  for (int dtype = 0; dtype < kDtypes; dtype++) {
    with_float(Dtype(dtype), [&]<class S>(std::type_identity<S>) {
      kernels.recur[dtype] = recur_lines<S, false>;
      kernels.recur_carried[dtype] = recur_lines<S, true>;
    });
  }
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu::recurrence
