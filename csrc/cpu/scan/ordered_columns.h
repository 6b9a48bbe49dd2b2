// Sums and products down columns: the lanes of a vector are neighbouring lines, so that nothing is shuffled.
#pragma once
#include "../reduce/ordered.h"
#include "../vector.h"
#include "ordered.h"

namespace torch_reductions::cpu::scan {
namespace {

constexpr int kScanRows = 8;                 // rows at once: the lowest three levels of the tree are in registers
constexpr int kPitch = reduce::kStrip + 16;  // from row to row of a buffer; not a power of two, for the cache's sake
constexpr int kColumnLevels = 48;

template <class A>
using RowsOf = A[kScanRows * kPitch];

// Rows of a strip as accumulators, readable in whole vectors: the input itself where it has this form.
template <class A, class S>
ALWAYS_INLINE const A* panel_of(const ScanStrip& s, int64_t k, int64_t rows, RowsOf<A>& buffer, int64_t& pitch) {
  const S* input = static_cast<const S*>(s.input) + k * s.input_step;
  if constexpr (std::is_same_v<A, S>) {
    if (s.input_line == 1 && s.lines >= kLanes<A> && rows == kScanRows) {
      pitch = s.input_step;
      return input;
    }
  }
  pitch = kPitch;
  for (int64_t r = 0; r < rows; r++) widen(input + r * s.input_step, s.input_line, s.lines, buffer + r * kPitch);
  return buffer;
}

// The output, if the results of these rows can be stored there directly; otherwise null.
template <class A, class R>
ALWAYS_INLINE A* output_rows(const ScanStrip& s, int64_t k, int64_t rows) {
  if constexpr (std::is_same_v<A, R>) {
    if (s.output_line == 1 && s.lines >= kLanes<A> && rows == kScanRows) {
      return static_cast<A*>(s.output) + k * s.output_step;
    }
  }
  return nullptr;
}

template <class A, class R>
ALWAYS_INLINE void narrow_rows(const ScanStrip& s, int64_t k, int64_t rows, const A* buffer) {
  R* output = static_cast<R*>(s.output) + k * s.output_step;
  for (int64_t r = 0; r < rows; r++) {
    narrow(buffer + r * kPitch, s.lines, output + r * s.output_step, s.output_line);
  }
}

// RowScan (ordered_rows.h) with one line per lane: waiting[l] is a block of 2^l panels, before[l] the fold of the base
// and of all blocks before it.
template <class Op, class A>
struct ColumnScan {
  alignas(64) A waiting[kColumnLevels][kPitch], before[kColumnLevels][kPitch], base[kPitch];

  // One vector of columns of eight rows: p and q point to its input and output, i is its place in the arrays above.
  ALWAYS_INLINE void panel(int levels, int64_t i, const A* p, int64_t pitch, A* q, int64_t out_pitch) {
    const Vector<A> x0 = load(p), x1 = load(p + pitch), x2 = load(p + 2 * pitch), x3 = load(p + 3 * pitch);
    const Vector<A> x4 = load(p + 4 * pitch), x5 = load(p + 5 * pitch), x6 = load(p + 6 * pitch);
    const Vector<A> x01 = Op::combine(x0, x1), x03 = Op::combine(x01, Op::combine(x2, x3));
    const Vector<A> x45 = Op::combine(x4, x5), x67 = Op::combine(x6, load(p + 7 * pitch));
    const Vector<A> f0 = load(base + i), f2 = Op::combine(f0, x01), f4 = Op::combine(f0, x03);
    const Vector<A> f6 = Op::combine(f4, x45);
    Vector<A> total = Op::combine(x03, Op::combine(x45, x67));
    for (int level = 0; level < levels; level++) total = Op::combine(load(waiting[level] + i), total);
    store(waiting[levels] + i, total);
    const Vector<A> f8 = Op::combine(load(before[levels] + i), total);
    for (int level = 0; level < levels; level++) store(before[level] + i, f8);
    store(base + i, f8);
    store(q, Op::combine(f0, x0));
    store(q + out_pitch, f2);
    store(q + 2 * out_pitch, Op::combine(f2, x2));
    store(q + 3 * out_pitch, f4);
    store(q + 4 * out_pitch, Op::combine(f4, x4));
    store(q + 5 * out_pitch, f6);
    store(q + 6 * out_pitch, Op::combine(f6, x6));
    store(q + 7 * out_pitch, f8);
  }
};

// One number for each line, from vectors of lines.
template <class A>
ALWAYS_INLINE void copy_lines(const A* vectors, int64_t lines, A* to) {
  for (int64_t line = 0; line < lines; line++) {
    const int64_t i = line / kLanes<A> * kLanes<A>;
    to[line] = vectors[i + line - column<A>(i, lines)];
  }
}

// The fold of each line, a block of 2^k >= kScanRows elements.
template <class Op, class A, class S>
void fold_columns(const ScanStrip& s, A* folds) {
  constexpr int W = kLanes<A>;
  alignas(64) RowsOf<A> in;
  alignas(64) A waiting[kColumnLevels][kPitch];
  if (s.lines < W) __builtin_memset(in, 0, sizeof in);
  for (int64_t k = 0; k < s.length; k += kScanRows) {
    int64_t pitch;
    const A* const panel = panel_of<A, S>(s, k, kScanRows, in, pitch);
    const int levels = __builtin_ctzll(~uint64_t(k / kScanRows));
    for (int64_t i = 0; i < s.lines; i += W) {
      const A* const p = panel + column<A>(i, s.lines);
      const auto two = [&](int r) { return Op::combine(load(p + r * pitch), load(p + (r + 1) * pitch)); };
      Vector<A> total = Op::combine(Op::combine(two(0), two(2)), Op::combine(two(4), two(6)));
      for (int level = 0; level < levels; level++) total = Op::combine(load(waiting[level] + i), total);
      store(waiting[levels] + i, total);
    }
  }
  copy_lines(waiting[__builtin_ctzll(uint64_t(s.length / kScanRows))], s.lines, folds);
}

// The total of each line of 2^k elements that was scanned.
template <class Op, class A, class S>
__attribute__((noinline)) void column_totals(const ScanStrip& s, ColumnScan<Op, A>& scan, RowsOf<A>& in, A* totals) {
  if (s.length < kScanRows) {
    int64_t pitch;
    const A* const panel = panel_of<A, S>(s, 0, s.length, in, pitch);
    for (int64_t i = 0; i < s.lines; i += kLanes<A>) {
      const A* const p = panel + column<A>(i, s.lines);
      Vector<A> total = load(p);
      if (s.length > 1) total = Op::combine(total, load(p + pitch));
      if (s.length > 2) total = Op::combine(total, Op::combine(load(p + 2 * pitch), load(p + 3 * pitch)));
      store(scan.waiting[0] + i, total);
    }
  }
  const int64_t panels = s.length < kScanRows ? 1 : s.length / kScanRows;
  copy_lines(scan.waiting[__builtin_ctzll(uint64_t(panels))], s.lines, totals);
}

template <class Op, class A, class S, class R>
void scan_columns(const ScanStrip& s, const A* bases) {
  constexpr int W = kLanes<A>;
  alignas(64) RowsOf<A> in, out;
  ColumnScan<Op, A> scan;
  // Rows and lanes beyond the last ones are computed too, and need initialized memory.
  if (s.lines < W || s.length < kScanRows) __builtin_memset(in, 0, sizeof in);
  for (int64_t i = 0; i < s.lines; i += W) {
    const int64_t j = column<A>(i, s.lines);
    for (int64_t lane = 0; lane < W; lane++) {
      const A base = bases && j + lane < s.lines ? bases[j + lane] : Op::identity;
      scan.base[i + lane] = scan.before[0][i + lane] = base;
      for (int level = 1; s.length / kScanRows >> (level - 1); level++) scan.before[level][i + lane] = base;
    }
  }
  for (int64_t k = 0; k < s.length; k += kScanRows) {
    const int64_t rows = s.length - k < kScanRows ? s.length - k : kScanRows, kept = s.kept(k, rows);
    int64_t pitch, out_pitch = s.output_step;
    const A* p = panel_of<A, S>(s, k, rows, in, pitch);
    A* q = output_rows<A, R>(s, k, kept);
    if (q == nullptr) q = out, out_pitch = kPitch;
    const int levels = __builtin_ctzll(~uint64_t(k / kScanRows));
    for (int64_t i = 0; i < s.lines; i += W) {
      const int64_t j = column<A>(i, s.lines);
      scan.panel(levels, i, p + j, pitch, q + j, out_pitch);
    }
    if (q == out) narrow_rows<A, R>(s, k, kept, out);
  }
  if (s.totals) column_totals<Op, A, S>(s, scan, in, static_cast<A*>(s.totals));
}

}  // namespace
}  // namespace torch_reductions::cpu::scan
