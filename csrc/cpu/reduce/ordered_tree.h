// Sums and products in the order of docs/order.md, of rows and of columns.
//
// The operators are those of operators.h, written so that one source serves scalars and vectors.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

#include "../vector.h"
#include "ordered.h"

namespace torch_reductions::cpu::reduce {
namespace {

// ---------------------------------------------------------------- more operators: T is an A or a vector of them

template <class A>
constexpr A infinity() {  // or the largest integer
  if constexpr (std::is_floating_point_v<A>) return A(__builtin_inf());
  else return A(-1) < A(0) ? A(~(uint64_t(1) << (8 * sizeof(A) - 1))) : A(-1);
}
template <class A>
constexpr A kInfinity = infinity<A>();

// beats(x, best) is the comparison of argmax, where x comes later: NaN is the extreme, and the first of equals wins.
template <class A>
struct MaxOf {
  static constexpr A identity = std::is_floating_point_v<A> ? A(-kInfinity<A>) : A(-kInfinity<A> - 1);
  template <class T>
  static ALWAYS_INLINE T combine(T left, T right) {
    if constexpr (std::is_floating_point_v<A>) return ((right > left) | (right != right)) ? right : left;
    else return right > left ? right : left;
  }
  template <class T>
  static ALWAYS_INLINE auto precedes(T x, T best) {
    return x > best;
  }
  template <class T>
  static ALWAYS_INLINE auto beats(T x, T best) {
    if constexpr (std::is_floating_point_v<A>) return (x > best) | ((x != x) & (best == best));
    else return x > best;
  }
};

template <class A>
struct MinOf {
  static constexpr A identity = kInfinity<A>;
  template <class T>
  static ALWAYS_INLINE T combine(T left, T right) {
    if constexpr (std::is_floating_point_v<A>) return ((right < left) | (right != right)) ? right : left;
    else return right < left ? right : left;
  }
  template <class T>
  static ALWAYS_INLINE auto precedes(T x, T best) {
    return x < best;
  }
  template <class T>
  static ALWAYS_INLINE auto beats(T x, T best) {
    if constexpr (std::is_floating_point_v<A>) return (x < best) | ((x != x) & (best == best));
    else return x < best;
  }
};

// ---------------------------------------------------------------- from W vectors to one vector of their W totals

// Which of the 2 W lanes of a and b becomes lane i of the even (odd) operand. The first levels pair lanes inside 16
// bytes, where a shuffle is cheap, the last ones pair these 16 bytes. After all levels the totals are in order.
constexpr int kInOrder = 0;  // not a level: pairs neighbours in order, first those of a; a more expensive shuffle
template <class A>
constexpr int source(int level, int odd, int i) {
  constexpr int kLanesOf16 = 16 / sizeof(A), kInside = log2(kLanesOf16);
  if (level == kInOrder) return 2 * i + odd;
  const int unit = level <= kInside ? 1 : kLanesOf16, group = level <= kInside ? kLanesOf16 : kLanes<A>;
  const int first = i / group * group, place = (i - first) / unit, half = group / unit / 2;
  return (place < half ? 0 : kLanes<A>)+first + (2 * (place % half) + odd) * unit + i % unit;
}

template <class A, int kLevel, int kOdd, std::size_t... i>
ALWAYS_INLINE Vector<A> pick(Vector<A> a, Vector<A> b, std::index_sequence<i...>) {
#ifdef __clang__
  return __builtin_shufflevector(a, b, source<A>(kLevel, kOdd, i)...);
#else
  return __builtin_shuffle(a, b, LaneMask<A>{source<A>(kLevel, kOdd, i)...});
#endif
}

template <class Op, class A, int kLevel>
ALWAYS_INLINE Vector<A> pair(Vector<A> a, Vector<A> b) {
  constexpr auto kAll = std::make_index_sequence<kLanes<A>>();
  return Op::combine(pick<A, kLevel, 0>(a, b, kAll), pick<A, kLevel, 1>(a, b, kAll));
}

// The totals of 2^kLevel vectors, `step` elements apart. With kPart only the lanes in `keep` count.
template <class Op, class A, int kLevel = log2(kLanes<A>), bool kPart = false, class S = A>
ALWAYS_INLINE Vector<A> totals(const S* p, int64_t step, LaneMask<A> keep = LaneMask<A>{}) {
  if constexpr (kLevel > 0) {
    const Vector<A> a = totals<Op, A, kLevel - 1, kPart>(p, step, keep);
    const Vector<A> b = totals<Op, A, kLevel - 1, kPart>(p + (1 << (kLevel - 1)) * step, step, keep);
    return pair<Op, A, kLevel>(a, b);
  } else if constexpr (kPart) {
    return keep ? load(p) : splat(Op::identity);
  } else {
    return load_as<A>(p);
  }
}

// The balanced tree over the lanes of one vector.
template <class Op, class A, int kLevel = log2(kLanes<A>)>
ALWAYS_INLINE A across(Vector<A> v) {
  if constexpr (kLevel == 0) {
    return v[0];
  } else {
    constexpr int kThis = log2(kLanes<A>) - kLevel + 1;
    return across<Op, A, kLevel - 1>(pair<Op, A, kThis>(v, v));
  }
}

// ---------------------------------------------------------------- one row of contiguous elements

constexpr int kBlock = 4096;  // a power of every W, and at least W^3

// The totals of each of so many vectors, at least W.
template <class Op, class A, class S>
ALWAYS_INLINE void totals_of_each(const S* p, int vectors, A* t, bool is_input) {
  constexpr int W = kLanes<A>;
  for (int i = 0; i < vectors; i += W) {
    const int at = i + W <= vectors ? i : vectors - W;  // the last ones overlap, with the same bits
    if (is_input) prefetch(p + at * W, W * W * sizeof(S));
    store(t + at, totals<Op, A>(p + at * W, W));
  }
}

// The balanced tree over kN elements: totals of W elements each, then totals of W totals, and so on.
template <class Op, class A, int kN = kBlock, class S = A>
A block(const S* p, bool is_input = false) {
  constexpr int W = kLanes<A>;
  if constexpr (kN == W) {
    return across<Op, A>(load_as<A>(p));
  } else {
    alignas(64) A t[kN / W];
    totals_of_each<Op, A>(p, kN / W, t, is_input);
    return block<Op, A, kN / W>(t);
  }
}

template <class Op, class A, int kN>
ALWAYS_INLINE A tree(const A* p) {
  if constexpr (kN == 1) return *p;
  else return Op::combine(tree<Op, A, kN / 2>(p), tree<Op, A, kN / 2>(p + kN / 2));
}

// acc combined with one block per binary digit of n below 2 kN, the largest first.
template <class Op, class A, int kN>
ALWAYS_INLINE A digits(A acc, const A* p, int n) {
  if (n & kN) acc = Op::combine(acc, tree<Op, A, kN>(p)), p += kN;
  if constexpr (kN > 1) acc = digits<Op, A, kN / 2>(acc, p, n);
  return acc;
}

// acc combined with one block per binary digit of n < kBlock. Blocks of W elements and more are blocks of the n / W
// vectors' totals.
template <class Op, class A>
A fold_short(A acc, const A* p, int n) {
  constexpr int W = kLanes<A>;
  if (n >= W) {
    alignas(64) A t[kBlock / W];
    const int vectors = n / W;
    if (vectors >= W) {
      totals_of_each<Op, A>(p, vectors, t, false);
    } else {
      for (int i = 0; i < vectors; i++) t[i] = across<Op, A>(load(p + i * W));
    }
    acc = fold_short<Op, A>(acc, t, vectors);
    p += vectors * W;
  }
  return digits<Op, A, W / 2>(acc, p, n % W);
}

// Whether vectors of contiguous elements are loaded as accumulators from where they lie.
template <class A, class S>
constexpr bool kLoadedInPlace = std::is_same_v<A, S> || kConvertedInRegisters<S>;

template <class Op, class A, class S>
ALWAYS_INLINE A block_of(const S* row, int64_t stride, A* buffer) {
  if constexpr (kLoadedInPlace<A, S>) {
    if (stride == 1) return block<Op, A>(row, true);
  }
  widen(row, stride, kBlock, buffer);
  return block<Op, A>(buffer);
}

template <class Op, class A, class S>
A fold_row(const S* row, int64_t stride, int64_t n) {
  alignas(64) A buffer[kBlock];
  A waiting[64], acc = Op::identity;
  const int64_t blocks = n / kBlock;
  for (int64_t b = 0; b < blocks; b++) {
    A value = block_of<Op>(row + b * kBlock * stride, stride, buffer);
    int level = 0;
    for (int64_t c = b; c & 1; c >>= 1) value = Op::combine(waiting[level++], value);
    waiting[level] = value;
  }
  for (int level = 63; blocks != 0 && level >= 0; level--) {
    if (blocks >> level & 1) acc = Op::combine(acc, waiting[level]);
  }
  const int rest = int(n % kBlock);
  return fold_short<Op, A>(acc, contiguous<A>(row, stride, n - rest, rest, buffer), rest);
}

// ---------------------------------------------------------------- W short rows at once

// acc combined with n < W more elements of each of W rows; reads up to W - 1 elements beyond the end of a row.
template <class Op, class A>
ALWAYS_INLINE Vector<A> fold_rests(Vector<A> acc, const A* p, int64_t step, int n) {
  constexpr int W = kLanes<A>;
  LaneMask<A> lane;
  for (int i = 0; i < W; i++) lane[i] = i;
  for (int digit = W / 2; digit > 0; digit /= 2) {
    if ((n & digit) == 0) continue;
    acc = Op::combine(acc, totals<Op, A, log2(W), true>(p, step, lane < digit));
    p += digit;
  }
  return acc;
}

// n < W * W elements of each of W rows; reads up to W - 1 elements beyond the end of a row.
template <class Op, class A>
ALWAYS_INLINE Vector<A> fold_rows(const A* p, int64_t step, int n) {
  constexpr int W = kLanes<A>;
  Vector<A> waiting[log2(W) + 1] = {}, acc = splat(Op::identity);
  const int vectors = n / W;
  for (int i = 0; i < vectors; i++) {
    Vector<A> value = totals<Op, A>(p + i * W, step);
    int level = 0;
    for (int c = i; c & 1; c >>= 1) value = Op::combine(waiting[level++], value);
    waiting[level] = value;
  }
  for (int level = log2(W); level >= 0; level--) {
    if (vectors >> level & 1) acc = Op::combine(acc, waiting[level]);
  }
  return fold_rests<Op, A>(acc, p + vectors * W, step, n % W);
}

template <class S>
struct Rows {
  const S* first;
  int64_t step;

  ALWAYS_INLINE const S* operator()(int row) const { return first + row * step; }
};

// W rows of W * W elements and more: each row's vectors become their totals, until the rows of totals are short.
// t has room for n elements, and a vector behind them.
template <class Op, class A, class EachRow>
Vector<A> fold_longer_rows(const EachRow& row, int n, A* t, bool is_input) {
  constexpr int W = kLanes<A>;
  const int vectors = n / W, rest = n % W;
  alignas(64) A rests[W * W];
  for (int r = 0; r < W; r++) {
    const auto* p = row(r);
    totals_of_each<Op, A>(p, vectors, t + r * vectors, is_input);
    for (int i = 0; i < rest; i++) rests[r * W + i] = A(widen(p[vectors * W + i]));
  }
  // The next totals are written where those were that they are of.
  const Vector<A> acc = vectors < W * W ? fold_rows<Op, A>(t, vectors, vectors)
                                        : fold_longer_rows<Op, A>(Rows<A>{t, vectors}, vectors, t, false);
  return fold_rests<Op, A>(acc, rests, W, rest);
}

// W contiguous rows of n = 2^k < W elements each: n whole vectors.
template <class Op, class A, int kVectors>
ALWAYS_INLINE Vector<A> fold_packed_rows(const A* p) {
  if constexpr (kVectors == 1) return load(p);
  else
    return pair<Op, A, kInOrder>(fold_packed_rows<Op, A, kVectors / 2>(p),
                                 fold_packed_rows<Op, A, kVectors / 2>(p + kVectors / 2 * kLanes<A>));
}

template <class Op, class A>
ALWAYS_INLINE Vector<A> fold_w_rows(const A* p, int64_t step, int n) {
  if constexpr (kLanes<A> > 8)
    if (n == 8 && step == 8) return fold_packed_rows<Op, A, 8>(p);
  if constexpr (kLanes<A> > 4)
    if (n == 4 && step == 4) return fold_packed_rows<Op, A, 4>(p);
  if constexpr (kLanes<A> > 2)
    if (n == 2 && step == 2) return fold_packed_rows<Op, A, 2>(p);
  return fold_rows<Op, A>(p, step, n);
}

// Whether the lanes of a vector are elements of one row, not neighbouring rows.
template <class A>
ALWAYS_INLINE bool one_row_at_a_time(const ReduceStrip& s) {
  constexpr int W = kLanes<A>;
  return s.length >= W * W || s.outputs < W;
}

template <class Op, class A, class S>
void fold_strip_of_rows(const ReduceStrip& s, A* folds) {
  constexpr int W = kLanes<A>;
  const S* input = static_cast<const S*>(s.input);
  if (one_row_at_a_time<A>(s)) {
    int64_t j = 0;
    if (s.length <= kBlock) {
      alignas(64) A buffer[kBlock], t[kBlock + W];
      for (; j + W <= s.outputs; j += W) {
        const Rows<S> rows{input + j * s.output_stride, s.output_stride};
        if constexpr (kLoadedInPlace<A, S>) {
          if (s.length_stride == 1) {
            store(folds + j, fold_longer_rows<Op, A>(rows, int(s.length), t, true));
            continue;
          }
        }
        const auto widened = [&](int r) -> const A* {
          widen(rows(r), s.length_stride, s.length, buffer);
          return buffer;
        };
        store(folds + j, fold_longer_rows<Op, A>(widened, int(s.length), t, false));
      }
    }
    for (; j < s.outputs; j++) {
      folds[j] = fold_row<Op, A>(input + j * s.output_stride, s.length_stride, s.length);
    }
    return;
  }
  alignas(64) A buffer[W * W * W + W];
  const int n = int(s.length);
  for (int64_t i = 0; i < s.outputs; i += W) {
    const int64_t j = i + W <= s.outputs ? i : s.outputs - W;  // the last ones overlap, with the same bits
    const S* rows = input + j * s.output_stride;
    if constexpr (std::is_same_v<A, S>) {
      const bool reads_inside = n % W == 0 || (s.outputs - W - j) * s.output_stride >= W - 1;
      if (s.length_stride == 1 && reads_inside) {
        prefetch(rows, W * n * sizeof(A));
        store(folds + j, fold_w_rows<Op, A>(rows, s.output_stride, n));
        continue;
      }
    }
    if (s.length_stride == 1 && s.output_stride == n) {
      widen(rows, 1, W * n, buffer);
    } else {
      for (int r = 0; r < W; r++) widen(rows + r * s.output_stride, s.length_stride, n, buffer + r * n);
    }
    store(folds + j, fold_w_rows<Op, A>(buffer, n, n));
  }
}

// ---------------------------------------------------------------- columns

constexpr int kRowsAtOnce = 8;

// Rows of a strip as accumulators, readable in whole vectors.
template <class A, class S>
struct Panel {
  const ReduceStrip& strip;
  A* buffer;  // of kRowsAtOnce * kStrip
  int64_t step;

  ALWAYS_INLINE const A* rows(int64_t k, int64_t n) {
    const ReduceStrip& s = strip;
    const S* input = static_cast<const S*>(s.input) + k * s.length_stride;
    if constexpr (std::is_same_v<A, S>) {
      // A vector may read beyond the end of a narrower strip, as long as it stays inside the tensor.
      const bool reads_inside = s.outputs >= kLanes<A> || (s.length - k - n) * s.length_stride >= kLanes<A> - s.outputs;
      if (s.output_stride == 1 && reads_inside) {
        step = s.length_stride;
        return input;
      }
    }
    step = kStrip;
    for (int64_t r = 0; r < n; r++) widen(input + r * s.length_stride, s.output_stride, s.outputs, buffer + r * kStrip);
    return buffer;
  }
};

// The rows as they lie, where a vector is converted as it is loaded.
template <class S>
struct InPlace {
  const ReduceStrip& strip;
  int64_t step;

  ALWAYS_INLINE const S* rows(int64_t k, int64_t) const { return static_cast<const S*>(strip.input) + k * step; }
};

// body(panel), of either kind.
template <class A, class S, class Body>
ALWAYS_INLINE void with_panel(const ReduceStrip& s, const Body& body) {
  if constexpr (kConvertedInRegisters<S>) {
    if (s.output_stride == 1 && s.outputs >= kLanes<A>) return body(InPlace<S>{s, s.length_stride});
  }
  alignas(64) A buffer[kRowsAtOnce * kStrip];
  body(Panel<A, S>{s, buffer, 0});
}

template <class A>
ALWAYS_INLINE void store_columns(A* output, int64_t j, int64_t columns, Vector<A> v) {
  if (columns >= kLanes<A>) return store(output + j, v);
  for (int64_t i = 0; i < columns; i++) output[i] = v[i];
}

// The balanced tree down kN rows.
template <class Op, class A, int kN, class S>
ALWAYS_INLINE Vector<A> tree_down(const S* p, int64_t step) {
  if constexpr (kN == 1) return load_as<A>(p);
  else return Op::combine(tree_down<Op, A, kN / 2>(p, step), tree_down<Op, A, kN / 2>(p + kN / 2 * step, step));
}

template <class Op, class A, int kN, class S>
ALWAYS_INLINE Vector<A> digits_down(Vector<A> acc, const S* p, int64_t step, int64_t n) {
  if (n & kN) acc = Op::combine(acc, tree_down<Op, A, kN>(p, step)), p += kN * step;
  if constexpr (kN > 1) acc = digits_down<Op, A, kN / 2>(acc, p, step, n);
  return acc;
}

template <class Op, class A, class AnyPanel>
ALWAYS_INLINE void fold_panels(const ReduceStrip& s, AnyPanel panel, A* folds) {
  constexpr int W = kLanes<A>;
  alignas(64) A waiting[48][kStrip];
  const int64_t blocks = s.length / kRowsAtOnce, rest = s.length % kRowsAtOnce;
  for (int64_t b = 0; b < blocks; b++) {
    const auto* p = panel.rows(b * kRowsAtOnce, kRowsAtOnce);
    const int levels = __builtin_ctzll(~b);
    for (int64_t i = 0; i < s.outputs; i += W) {
      Vector<A> value = tree_down<Op, A, kRowsAtOnce>(p + column<A>(i, s.outputs), panel.step);
      for (int level = 0; level < levels; level++) value = Op::combine(load(waiting[level] + i), value);
      store(waiting[levels] + i, value);
    }
  }
  const auto* p = panel.rows(blocks * kRowsAtOnce, rest);
  for (int64_t i = 0; i < s.outputs; i += W) {
    const int64_t j = column<A>(i, s.outputs);
    Vector<A> acc = splat(Op::identity);
    for (int level = 47; level >= 0; level--) {
      if (blocks >> level & 1) acc = Op::combine(acc, load(waiting[level] + i));
    }
    store_columns(folds, j, s.outputs, digits_down<Op, A, kRowsAtOnce / 2>(acc, p + j, panel.step, rest));
  }
}

template <class Op, class A, class S>
void fold_strip_of_columns(const ReduceStrip& s, A* folds) {
  with_panel<A, S>(s, [&](auto panel) { fold_panels<Op, A>(s, panel, folds); });
}

}  // namespace
}  // namespace torch_reductions::cpu::reduce
