// Sums and products along contiguous memory: vectors hold neighbouring elements of one line.
#pragma once
#include "../vector.h"
#include "ordered.h"

namespace torch_reductions::cpu::scan {
namespace {

// ---------------------------------------------------------------- inside a vector: the tree, up and down

// Lane i of the result is lane i ^ kDistance of v.
template <class A, int kDistance, std::size_t... i>
ALWAYS_INLINE Vector<A> swap_lanes(Vector<A> v, std::index_sequence<i...>) {
#ifdef __clang__
  return __builtin_shufflevector(v, v, int(i ^ kDistance)...);
#else
  return __builtin_shuffle(v, LaneMask<A>{int(i ^ kDistance)...});
#endif
}

// All ones in the lanes of the right half of each block of 2 kDistance lanes.
template <class A, int kDistance, std::size_t... i>
ALWAYS_INLINE LaneMask<A> right_halves(std::index_sequence<i...>) {
  return LaneMask<A>{(i & kDistance ? -1 : 0)...};
}

// Shifts the lanes down by one; the first lane of `next` becomes the last one. So exclusive results become inclusive.
template <class A, std::size_t... i>
ALWAYS_INLINE Vector<A> inclusive(Vector<A> v, Vector<A> next, std::index_sequence<i...>) {
#ifdef __clang__
  return __builtin_shufflevector(v, next, int(i + 1)...);
#else
  return __builtin_shuffle(v, next, LaneMask<A>{int(i + 1)...});
#endif
}

template <class A>
constexpr auto kAllLanes = std::make_index_sequence<kLanes<A>>();

// The up-sweep: at each level every lane keeps the value of its sibling block. In the end all lanes hold the total.
template <class Op, class A, int kLevel = 0>
ALWAYS_INLINE Vector<A> up_sweep(Vector<A> v, Vector<A>* siblings) {
  if constexpr (kLevel == log2(kLanes<A>)) {
    return v;
  } else {
    siblings[kLevel] = swap_lanes<A, 1 << kLevel>(v, kAllLanes<A>);
    return up_sweep<Op, A, kLevel + 1>(Op::combine(v, siblings[kLevel]), siblings);
  }
}

// The down-sweep: the prefix of a right half is the prefix of its block, combined with the left sibling.
template <class Op, class A, int kLevel = log2(kLanes<A>) - 1>
ALWAYS_INLINE Vector<A> down_sweep(Vector<A> before, const Vector<A>* siblings) {
  before = right_halves<A, 1 << kLevel>(kAllLanes<A>) ? Op::combine(before, siblings[kLevel]) : before;
  if constexpr (kLevel > 0) return down_sweep<Op, A, kLevel - 1>(before, siblings);
  else return before;
}

// ---------------------------------------------------------------- from vector to vector: columns of totals

template <class A>
constexpr int kScanGroup =
    4 * kLanes<A>;  // elements that are scanned at once: four vectors, so that their chains overlap

// A binary counter over the groups of a row; every vector holds one value in all lanes. waiting[l] is a block of 2^l
// groups, before[l] the fold of the base and of all blocks before it, so that the next base takes one operation more
// than the tree.
template <class Op, class A>
struct RowScan {
  static constexpr int W = kLanes<A>, L = log2(W), kLevels = 60;
  Vector<A> waiting[kLevels], before[kLevels], base;
  int64_t groups = 0;

  ALWAYS_INLINE RowScan(A first, int64_t length) : base(splat(first)) {
    before[0] = base;
    for (int level = 1; length / kScanGroup<A> >> (level - 1); level++) before[level] = base;
  }

  ALWAYS_INLINE void group(const A* p, A* q) {
    Vector<A> a[L], b[L], c[L], d[L];
    const Vector<A> ta = up_sweep<Op, A>(load(p), a), tb = up_sweep<Op, A>(load(p + W), b);
    const Vector<A> tc = up_sweep<Op, A>(load(p + 2 * W), c), td = up_sweep<Op, A>(load(p + 3 * W), d);
    const Vector<A> tab = Op::combine(ta, tb), base_b = Op::combine(base, ta), base_c = Op::combine(base, tab);
    const Vector<A> base_d = Op::combine(base_c, tc);
    const Vector<A> ra = down_sweep<Op, A>(base, a), rb = down_sweep<Op, A>(base_b, b);
    const Vector<A> rc = down_sweep<Op, A>(base_c, c), rd = down_sweep<Op, A>(base_d, d);
    Vector<A> total = Op::combine(tab, Op::combine(tc, td));
    int level = 0;
    for (int64_t n = groups++; n & 1; n >>= 1) total = Op::combine(waiting[level++], total);
    waiting[level] = total;
    base = Op::combine(before[level], total);
    while (level-- > 0) before[level] = base;
    store(q, inclusive<A>(ra, base_b, kAllLanes<A>));
    store(q + W, inclusive<A>(rb, base_c, kAllLanes<A>));
    store(q + 2 * W, inclusive<A>(rc, base_d, kAllLanes<A>));
    store(q + 3 * W, inclusive<A>(rd, base, kAllLanes<A>));
  }
};

constexpr int kScanChunk = 1024;  // elements that are converted at a time

// The block of n = 2^k values, which it overwrites.
template <class Op, class A>
__attribute__((noinline)) A block_in_place(A* x, int64_t n) {
  for (; n > 1; n /= 2) {
    for (int64_t i = 0; i < n / 2; i++) x[i] = Op::combine(x[2 * i], x[2 * i + 1]);
  }
  return x[0];
}

// kCarried: the strip may ask for totals, and then drop its last result.
template <bool kCarried, class Op, class A, class S, class R>
void scan_row(const ScanStrip& s, const S* input, R* output, A base, A* total) {
  alignas(64) A in[kScanChunk], out[kScanChunk];
  RowScan<Op, A> scan(base, s.length);
  for (int64_t k = 0; k < s.length; k += kScanChunk) {
    const int64_t n = s.length - k < kScanChunk ? s.length - k : kScanChunk, kept = kCarried ? s.kept(k, n) : n;
    const A* p = in;
    A* q = out;
    if (n % kScanGroup<A> == 0) {
      p = contiguous<A>(input, s.input_step, k, n, in);
      if constexpr (std::is_same_v<A, R>) {
        if (s.output_step == 1 && kept == n) q = output + k;
      }
    } else {  // the last group is padded: the padding comes after all results
      widen(input + k * s.input_step, s.input_step, n, in);
      for (int64_t i = n; i % kScanGroup<A> != 0; i++) in[i] = A(0);
    }
    for (int64_t i = 0; i < n; i += kScanGroup<A>) scan.group(p + i, q + i);
    if (q == out) narrow(out, kept, output + k * s.output_step, s.output_step);
  }
  if (!kCarried || total == nullptr) return;
  const int64_t groups = s.length / kScanGroup<A>;
  *total = groups > 0 ? scan.waiting[__builtin_ctzll(uint64_t(groups))][0] : block_in_place<Op>(in, s.length);
}

// A row of at most four vectors. The last vector may reach into the next row, whose own results then replace these.
// kCarried: what came before is `base`, and the row's total, if it is a block of 2^k elements, is returned.
template <bool kCarried, class Op, class A>
ALWAYS_INLINE A scan_short_row(const A* p, A* q, int64_t n, A base) {
  constexpr int W = kLanes<A>, L = log2(W);
  Vector<A> siblings[L], before = splat(kCarried ? base : Op::identity), block{};
  for (int vector = 0; vector * W < n; vector++) {
    const Vector<A> total = up_sweep<Op, A>(load(p + vector * W), siblings);
    const Vector<A> results = down_sweep<Op, A>(before, siblings);
    if (!kCarried || vector != 1) before = Op::combine(before, total);
    if constexpr (kCarried) {
      block = vector == 0 ? total : Op::combine(block, total);
      if (vector == 1) before = Op::combine(splat(base), block);  // two vectors are one block
      // At level log2(n) the sibling of lane n is the block of the first n lanes.
      if (n < W) block = splat(siblings[__builtin_ctzll(uint64_t(n))][n]);
    }
    store(q + vector * W, inclusive<A>(results, before, kAllLanes<A>));
  }
  return block[0];
}

// Packed rows, shorter than a group; returns how many of them it scanned. kCarried: there are bases or totals.
template <bool kCarried, class Op, class A, class S, class R>
ALWAYS_INLINE int64_t scan_short_rows(const ScanStrip& s, const A* bases) {
  const S* input = static_cast<const S*>(s.input);
  R* output = static_cast<R*>(s.output);
  A* totals = static_cast<A*>(s.totals);
  int64_t line = 0;
  const auto scan = [bases, totals](int64_t line, const A* p, A* q, int64_t n) __attribute__((always_inline)) {
    const A total = scan_short_row<kCarried, Op>(p, q, n, kCarried && bases ? bases[line] : Op::identity);
    if (kCarried && totals) totals[line] = total;
  };
  if constexpr (std::is_same_v<A, S> && std::is_same_v<A, R>) {
    // Rows are read and written in whole vectors, for which there is no room behind the last rows.
    const int64_t room = s.lines * s.length - kScanGroup<A>;
    for (; line * s.length <= room; line++) {
      const int64_t at = line * s.length;
      scan(line, input + at, output + at, s.length);
    }
  } else {
    alignas(64) A in[kScanChunk + kScanGroup<A>] = {}, out[kScanChunk + kScanGroup<A>];
    while (line < s.lines) {
      const int64_t rows = kScanChunk / s.length < s.lines - line ? kScanChunk / s.length : s.lines - line;
      const int64_t first = line * s.length, n = rows * s.length;
      widen(input + first, 1, n, in);
      for (int64_t at = 0; at < n; at += s.length) scan(line++, in + at, out + at, s.length);
      narrow(out, n, output + first, 1);
    }
  }
  return line;
}

template <bool kCarried, class Op, class A, class S, class R>
__attribute__((noinline)) void scan_rows(const ScanStrip& s, const A* bases) {
  const S* input = static_cast<const S*>(s.input);
  R* output = static_cast<R*>(s.output);
  A* totals = static_cast<A*>(s.totals);
  int64_t line = 0;
  // Packed rows are whole rows: the lines of a tile are further apart than they are long.
  const bool packed = s.input_step == 1 && s.output_step == 1 && s.input_line == s.length && s.output_line == s.length;
  if (packed && s.length < kScanGroup<A> && !s.drops_last) {
    line = scan_short_rows<kCarried, Op, A, S, R>(s, bases);
  }
  for (; line < s.lines; line++) {
    scan_row<kCarried, Op, A, S, R>(s, input + line * s.input_line, output + line * s.output_line,
                                    kCarried && bases ? bases[line] : Op::identity, totals ? totals + line : nullptr);
  }
}

}  // namespace
}  // namespace torch_reductions::cpu::scan
