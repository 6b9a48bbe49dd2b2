// Scans along contiguous memory with an operator that costs more than a copy. Each lane holds a run of eight elements,
// so that there are two operations per element, instead of two per level of the tree inside a vector (ordered_rows.h).
#pragma once
#include "../vector.h"
#include "ordered.h"
#include "ordered_rows.h"

namespace torch_reductions::cpu::scan {
namespace {

constexpr int kRunLength = 8, kRuns = kScanChunk / kRunLength;  // elements of a run, runs at once
constexpr int kRunPitch = kRuns + 16;                           // from row to row; row r holds element r of each run

// The runs of a chunk: their elements, the partial folds inside their trees, and their totals.
template <class A>
struct Runs {
  alignas(64) A x[kRunLength][kRunPitch], x01[kRuns], x03[kRuns], x45[kRuns], total[kRuns];
};

// Splits n elements into runs and computes their trees. Behind the last element there may be values of earlier chunks.
template <class Op, class A>
__attribute__((noinline)) void trees_of_runs(const A* p, int64_t n, Runs<A>& runs) {
  for (int64_t i = 0; i < n / kRunLength; i++) {
    for (int r = 0; r < kRunLength; r++) runs.x[r][i] = p[i * kRunLength + r];
  }
  for (int64_t k = n - n % kRunLength; k < n; k++) runs.x[k % kRunLength][k / kRunLength] = p[k];
  for (int64_t i = 0; i * kRunLength < n; i += kLanes<A>) {
    const auto x = [&](int r) { return load(runs.x[r] + i); };
    const Vector<A> x01 = Op::combine(x(0), x(1)), x03 = Op::combine(x01, Op::combine(x(2), x(3)));
    const Vector<A> x45 = Op::combine(x(4), x(5)), x47 = Op::combine(x45, Op::combine(x(6), x(7)));
    store(runs.x01 + i, x01);
    store(runs.x03 + i, x03);
    store(runs.x45 + i, x45);
    store(runs.total + i, Op::combine(x03, x47));
  }
}

// The results of the n elements. The totals of the runs are scanned like a row: `scan` gives the prefix of each run.
template <class Op, class A>
__attribute__((noinline)) void folds_of_runs(RowScan<Op, A>& scan, int64_t n, Runs<A>& runs, A* q) {
  alignas(64) A folds[kRuns + 1];  // before each run, and after the last one
  folds[0] = scan.base[0];
  for (int64_t i = 0; i * kRunLength < n; i += kScanGroup<A>) scan.group(runs.total + i, folds + 1 + i);
  for (int64_t i = 0; i * kRunLength < n; i += kLanes<A>) {
    const Vector<A> f0 = load(folds + i), f2 = Op::combine(f0, load(runs.x01 + i));
    const Vector<A> f4 = Op::combine(f0, load(runs.x03 + i)), f6 = Op::combine(f4, load(runs.x45 + i));
    const auto with = [&](Vector<A> f, int r) { store(runs.x[r] + i, Op::combine(f, load(runs.x[r] + i))); };
    with(f0, 0), with(f2, 2), with(f4, 4), with(f6, 6);
    store(runs.x[1] + i, f2);
    store(runs.x[3] + i, f4);
    store(runs.x[5] + i, f6);
    store(runs.x[7] + i, load(folds + 1 + i));
  }
  for (int64_t i = 0; i < n / kRunLength; i++) {
    for (int r = 0; r < kRunLength; r++) q[i * kRunLength + r] = runs.x[r][i];
  }
  for (int64_t k = n - n % kRunLength; k < n; k++) q[k] = runs.x[k % kRunLength][k / kRunLength];
}

// The block of n = 2^k elements, at most kScanChunk: the totals of its runs, of runs of these, and so on.
template <class Op, class A>
A block_of_runs(const A* p, int64_t n, Runs<A>& runs) {
  while (n > kRunLength) {
    trees_of_runs<Op, A>(p, n, runs);
    p = runs.total, n /= kRunLength;
  }
  A total[kRunLength];
  for (int64_t i = 0; i < n; i++) total[i] = p[i];
  return block_in_place<Op>(total, n);
}

template <class Op, class A, class S>
void scan_runs(const ScanStrip& s, const A* bases) {
  alignas(64) A in[kScanChunk], out[kScanChunk];
  Runs<A> runs{};
  for (int64_t line = 0; line < s.lines; line++) {
    const S* const input = static_cast<const S*>(s.input) + line * s.input_line;
    S* const output = static_cast<S*>(s.output) + line * s.output_line;
    RowScan<Op, A> scan(bases ? bases[line] : Op::identity, (s.length + kRunLength - 1) / kRunLength);
    for (int64_t k = 0; k < s.length; k += kScanChunk) {
      const int64_t n = s.length - k < kScanChunk ? s.length - k : kScanChunk, kept = s.kept(k, n);
      trees_of_runs<Op, A>(contiguous<A>(input, s.input_step, k, n, in), n, runs);
      A* q = out;
      if constexpr (std::is_same_v<A, S>) {
        if (s.output_step == 1 && kept == n) q = output + k;
      }
      folds_of_runs<Op, A>(scan, n, runs, q);
      if (q == out) narrow(out, kept, output + k * s.output_step, s.output_step);
    }
    if (s.totals == nullptr) continue;
    const int64_t groups = s.length / kRunLength / kScanGroup<A>;
    static_cast<A*>(s.totals)[line] =
        groups > 0 ? scan.waiting[__builtin_ctzll(uint64_t(groups))][0]
                   : block_of_runs<Op, A>(contiguous<A>(input, s.input_step, 0, s.length, in), s.length, runs);
  }
}

// The fold of each line, a block of 2^k elements.
template <class Op, class A, class S>
void fold_runs(const ScanStrip& s, A* folds) {
  alignas(64) A in[kScanChunk];
  Runs<A> runs{};
  for (int64_t line = 0; line < s.lines; line++) {
    const S* const input = static_cast<const S*>(s.input) + line * s.input_line;
    A waiting[64], total = Op::identity;
    const int64_t n = s.length < kScanChunk ? s.length : kScanChunk;
    for (int64_t chunk = 0; chunk * n < s.length; chunk++) {
      total = block_of_runs<Op, A>(contiguous<A>(input, s.input_step, chunk * n, n, in), n, runs);
      int level = 0;
      for (int64_t c = chunk; c & 1; c >>= 1) total = Op::combine(waiting[level++], total);
      waiting[level] = total;
    }
    folds[line] = total;
  }
}

}  // namespace
}  // namespace torch_reductions::cpu::scan
