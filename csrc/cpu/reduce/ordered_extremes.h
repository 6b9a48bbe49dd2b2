// Extremes of floats, and the places of extremes. A maximum has the same bits in every order, but for NaN, of which the
// last one counts, and for zeros, of which the first one does: so these loops have no order, and rows with either are
// looked at again.
#pragma once
#include <type_traits>

#include "../../common/operators.h"  // only Indexed, none of its functions
#include "ordered_tree.h"

namespace torch_reductions::cpu::reduce {
namespace {

// Op without its NaN: of equals the left one stays. An instruction, where Op takes four.
template <class Op>
struct NumbersOf {
  template <class T>
  static ALWAYS_INLINE T combine(T left, T right) {
    return Op::precedes(right, left) ? right : left;
  }
};

template <class A>
ALWAYS_INLINE bool any_of(LaneMask<A> lanes, int64_t count = kLanes<A>) {
  int any = 0;
  for (int64_t i = 0; i < count; i++) any |= lanes[i] != 0;
  return any != 0;
}

// The extreme of n >= W contiguous elements in some lane; in `nan`, whether one of them is NaN.
template <class Op, class A>
ALWAYS_INLINE Vector<A> extreme_lanes(const A* p, int64_t n, LaneMask<A>& nan) {
  using Numbers = NumbersOf<Op>;
  constexpr int W = kLanes<A>, kAtOnce = 4;
  Vector<A> extreme[kAtOnce];
  for (int i = 0; i < kAtOnce; i++) extreme[i] = splat(Op::identity);
  int64_t k = 0;
  for (; k + kAtOnce * W <= n; k += kAtOnce * W) {
    prefetch(p + k, kAtOnce * W * sizeof(A));
    const Vector<A> a = load(p + k), b = load(p + k + W), c = load(p + k + 2 * W), d = load(p + k + 3 * W);
    extreme[0] = Numbers::combine(extreme[0], a), extreme[1] = Numbers::combine(extreme[1], b);
    extreme[2] = Numbers::combine(extreme[2], c), extreme[3] = Numbers::combine(extreme[3], d);
    if constexpr (std::is_floating_point_v<A>) nan |= ((a != a) | (b != b)) | ((c != c) | (d != d));
  }
  for (; k < n; k += W) {  // the last vector overlaps the one before it
    const Vector<A> a = load(p + (k + W <= n ? k : n - W));
    extreme[0] = Numbers::combine(extreme[0], a);
    if constexpr (std::is_floating_point_v<A>) nan |= a != a;
  }
  return Numbers::combine(Numbers::combine(extreme[0], extreme[1]), Numbers::combine(extreme[2], extreme[3]));
}

template <class Op, class A>
ALWAYS_INLINE A flipped_for_min(A x) {
  if constexpr (std::is_same_v<Op, MaxOf<A>>) return x;
  else if constexpr (std::is_floating_point_v<A>) return -x;
  else return ~x;
}

// The index of the first element that is the extreme of these n; where none is, that of the last one.
template <class A>
int find(const A* p, int n, A extreme) {
  constexpr int kChunk = 64;
  int from = 0;
  for (; from + kChunk <= n; from += kChunk) {
    int found = 0;
    for (int i = from; i < from + kChunk; i++) found |= (p[i] == extreme) | ((p[i] != p[i]) & (extreme != extreme));
    if (found) break;
  }
  while (from < n - 1 && !(p[from] == extreme || (p[from] != p[from] && extreme != extreme))) from++;
  return from < n ? from : n - 1;
}

// The first zero of a row.
template <class A, class S>
__attribute__((noinline)) A first_zero(const S* row, int64_t stride, int64_t n) {
  alignas(64) A buffer[kBlock];
  for (int64_t k = 0; k < n; k += kBlock) {
    const int some = int(n - k < kBlock ? n - k : kBlock);
    const A* p = contiguous<A>(row, stride, k, some, buffer);
    if (const A found = p[find(p, some, A(0))]; found == A(0)) return found;
  }
  return A(0);
}

template <class Op, class A, class S>
void extremes_of_rows(const ReduceStrip& s, A* folds) {
  constexpr int W = kLanes<A>;
  alignas(64) A buffer[kBlock], lanes[W * W], extremes[W];
  for (int64_t j = 0; j < s.outputs; j += W) {
    const int rows = int(s.outputs - j < W ? s.outputs - j : W);
    const auto row = [&](int r) { return static_cast<const S*>(s.input) + (j + r) * s.output_stride; };
    LaneMask<A> nan{};
    for (int r = 0; r < W; r++) {
      Vector<A> extreme = splat(Op::identity);
      for (int64_t k = 0; r < rows && k < s.length; k += kBlock) {
        // A rest of less than a vector is taken together with elements before it.
        const int64_t first = s.length - k < W ? s.length - W : k,
                      n = s.length - k < kBlock ? s.length - first : kBlock;
        const A* p = contiguous<A>(row(r), s.length_stride, first, n, buffer);
        const Vector<A> some = extreme_lanes<Op, A>(p, n, nan);
        extreme = NumbersOf<Op>::combine(extreme, some);
      }
      store(lanes + r * W, extreme);
    }
    store(extremes, totals<NumbersOf<Op>, A>(lanes, W));
    const bool has_nan = any_of<A>(nan);
    for (int r = 0; r < rows; r++) {
      if (has_nan) folds[j + r] = fold_row<Op, A, S>(row(r), s.length_stride, s.length);
      else if (extremes[r] == A(0)) folds[j + r] = first_zero<A>(row(r), s.length_stride, s.length);
      else folds[j + r] = extremes[r];
    }
  }
}

// Down a column the elements come in order, so that the first one of its zeros stays. False where one is NaN.
template <class Op, class A, class AnyPanel>
ALWAYS_INLINE bool extremes_of_panels(const ReduceStrip& s, AnyPanel panel, A* folds) {
  constexpr int W = kLanes<A>;
  alignas(64) A extremes[kStrip];
  LaneMask<A> nan{};
  for (int64_t i = 0; i < kStrip; i++) extremes[i] = Op::identity;
  for (int64_t k = 0; k < s.length; k += kRowsAtOnce) {
    const int64_t n = s.length - k < kRowsAtOnce ? s.length - k : kRowsAtOnce;
    const auto* p = panel.rows(k, n);
    for (int64_t i = 0; i < s.outputs; i += W) {
      const auto* from = p + column<A>(i, s.outputs);
      Vector<A> extreme = load(extremes + i);
      for (int64_t r = 0; r < n; r++) {
        const Vector<A> x = load_as<A>(from + r * panel.step);
        extreme = NumbersOf<Op>::combine(extreme, x);
        nan |= x != x;
      }
      store(extremes + i, extreme);
    }
  }
  for (int64_t i = 0; i < s.outputs; i += W) {
    store_columns(folds, column<A>(i, s.outputs), s.outputs, load(extremes + i));
  }
  return !any_of<A>(nan, s.outputs < W ? s.outputs : W);  // lanes beyond hold anything
}

template <class Op, class A, class S>
void extremes_of_columns(const ReduceStrip& s, A* folds) {
  bool right = false;
  with_panel<A, S>(s, [&](auto panel) { right = extremes_of_panels<Op, A>(s, panel, folds); });
  if (!right) fold_strip_of_columns<Op, A, S>(s, folds);
}

template <class Op, class A, class S>
void extreme_strip(const ReduceStrip& s, void* folds) {
  A* const to = static_cast<A*>(folds);
  if (s.columns) return extremes_of_columns<Op, A, S>(s, to);
  // The tree's loops convert the elements of several short rows at once.
  const bool are_converted = !std::is_same_v<A, S> && !one_row_at_a_time<A>(s);
  if (s.length < kLanes<A> || are_converted) fold_strip_of_rows<Op, A, S>(s, to);
  else extremes_of_rows<Op, A, S>(s, to);
}

// The extreme of n elements: of zeros any one, and NaN if there is one.
template <class Op, class A>
ALWAYS_INLINE A extreme_of(const A* p, int n) {
  if (n < kLanes<A>) return fold_short<Op, A>(Op::identity, p, n);
  LaneMask<A> nan{};
  const Vector<A> lanes = extreme_lanes<Op, A>(p, n, nan);
  if constexpr (std::is_floating_point_v<A>) {
    if (any_of<A>(nan)) return A(__builtin_nan(""));
  }
  return across<NumbersOf<Op>, A>(lanes);
}

template <class Op, class A, class S>
void arg_strip_of_rows(const ReduceStrip& s, Indexed<A>* folds) {
  alignas(64) A buffer[kBlock];
  for (int64_t j = 0; j < s.outputs; j++) {
    const S* row = static_cast<const S*>(s.input) + j * s.output_stride;
    Indexed<A> best{Op::identity, s.index};  // right if every element is the identity
    for (int64_t k = 0; k < s.length; k += kBlock) {
      const int n = int(s.length - k < kBlock ? s.length - k : kBlock);
      const A* p = contiguous<A>(row, s.length_stride, k, n, buffer);
      const A extreme = extreme_of<Op, A>(p, n);
      if (Op::beats(extreme, best.value)) best = {extreme, s.index + k + find(p, n, extreme)};
    }
    folds[j] = {flipped_for_min<Op>(best.value), best.index};
  }
}

template <class Op, class A, class AnyPanel>
ALWAYS_INLINE void arg_panels(const ReduceStrip& s, AnyPanel panel, Indexed<A>* folds) {
  using Index = std::conditional_t<sizeof(A) == 4, int32_t, int64_t>;  // as wide as a value
  constexpr int W = kLanes<A>;
  constexpr int64_t kPart = int64_t(1) << 30;  // rows that an Index can count
  alignas(64) A value[kStrip];
  alignas(64) Index index[kStrip];
  for (int64_t part = 0; part < s.length; part += kPart) {
    const int64_t end = s.length - part < kPart ? s.length : part + kPart;
    for (int64_t i = 0; i < kStrip; i++) value[i] = Op::identity, index[i] = 0;
    for (int64_t k = part; k < end; k += kRowsAtOnce) {
      const int64_t n = end - k < kRowsAtOnce ? end - k : kRowsAtOnce;
      const auto* p = panel.rows(k, n);
      for (int64_t i = 0; i < s.outputs; i += W) {
        const auto* from = p + column<A>(i, s.outputs);
        Vector<A> best = load(value + i);
        LaneMask<A> at = load(index + i);
        for (int64_t r = 0; r < n; r++) {
          const Vector<A> x = load_as<A>(from + r * panel.step);
          const auto take = Op::beats(x, best);
          best = take ? x : best;
          at = take ? splat(Index(k - part + r)) : at;
        }
        store(value + i, best);
        store(index + i, at);
      }
    }
    for (int64_t j = 0; j < s.outputs; j++) {
      const int64_t vector = j / W * W, i = vector + j - column<A>(vector, s.outputs);
      const Indexed<A> best{flipped_for_min<Op>(value[i]), s.index + part + index[i]};
      if (part == 0 || MaxOf<A>::beats(best.value, folds[j].value)) folds[j] = best;
    }
  }
}

template <class Op, class A, class S>
void arg_strip_of_columns(const ReduceStrip& s, Indexed<A>* folds) {
  with_panel<A, S>(s, [&](auto panel) { arg_panels<Op, A>(s, panel, folds); });
}

}  // namespace
}  // namespace torch_reductions::cpu::reduce
