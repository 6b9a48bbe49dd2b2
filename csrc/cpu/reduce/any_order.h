// Sums and products of integers, which wrap, and their extremes: they have the same bits in every order, so these loops
// have none, and the compiler vectorizes them as it likes. Rows that are shorter than a few vectors, many of them side
// by side, stay with the tree of ordered_kernels.h, whose lanes are rows.
#pragma once
#include "../vector.h"
#include "ordered.h"

namespace torch_reductions::cpu::reduce {
namespace {

// P is the type of a partial result. The sum of this many elements of 16 bits and less fits into an int32_t, of which a
// vector has twice as many lanes as of the 64-bit sum.
constexpr int64_t kPart = int64_t(1) << 15;

template <template <class> class Op, class P, class S>
ALWAYS_INLINE P fold_part(const S* p, int64_t stride, int64_t n) {
  P part = Op<P>::identity;
  if (stride == 1) {
    for (int64_t k = 0; k < n; k++) part = Op<P>::combine(part, P(widen(p[k])));
  } else {
    for (int64_t k = 0; k < n; k++) part = Op<P>::combine(part, P(widen(p[k * stride])));
  }
  return part;
}

template <template <class> class Op, class A, class P, class S>
void any_order_rows(const ReduceStrip& s, A* folds) {
  const int64_t most = sizeof(P) < sizeof(A) ? kPart : s.length;
  for (int64_t j = 0; j < s.outputs; j++) {
    const S* row = static_cast<const S*>(s.input) + j * s.output_stride;
    A total = Op<A>::identity;
    for (int64_t k = 0; k < s.length; k += most) {
      const int64_t n = s.length - k < most ? s.length - k : most;
      total = Op<A>::combine(total, A(fold_part<Op, P>(row + k * s.length_stride, s.length_stride, n)));
    }
    folds[j] = total;
  }
}

constexpr int kRowsDown = 8;

// One pass over the columns' partial results takes kN rows.
template <template <class> class Op, class P, int kN, class S>
ALWAYS_INLINE void fold_down(P* parts, const S* p, int64_t step, int64_t stride, int64_t columns) {
  const auto down = [&](int64_t j, int64_t at) {
    P part = parts[j];
    for (int r = 0; r < kN; r++) part = Op<P>::combine(part, P(widen(p[r * step + at])));
    parts[j] = part;
  };
  if (stride == 1) {
    for (int64_t j = 0; j < columns; j++) down(j, j);
  } else {
    for (int64_t j = 0; j < columns; j++) down(j, j * stride);
  }
}

template <template <class> class Op, class A, class P, class S>
void any_order_columns(const ReduceStrip& s, A* folds) {
  const int64_t most = sizeof(P) < sizeof(A) ? kPart : s.length;
  alignas(64) P parts[kStrip];
  for (int64_t j = 0; j < s.outputs; j++) folds[j] = Op<A>::identity;
  for (int64_t first = 0; first < s.length; first += most) {
    const int64_t end = s.length - first < most ? s.length : first + most;
    for (int64_t j = 0; j < s.outputs; j++) parts[j] = Op<P>::identity;
    const S* p = static_cast<const S*>(s.input) + first * s.length_stride;
    int64_t k = first;
    for (; k + kRowsDown <= end; k += kRowsDown, p += kRowsDown * s.length_stride) {
      fold_down<Op, P, kRowsDown>(parts, p, s.length_stride, s.output_stride, s.outputs);
    }
    for (; k < end; k++, p += s.length_stride) {
      fold_down<Op, P, 1>(parts, p, s.length_stride, s.output_stride, s.outputs);
    }
    for (int64_t j = 0; j < s.outputs; j++) folds[j] = Op<A>::combine(folds[j], A(parts[j]));
  }
}

}  // namespace
}  // namespace torch_reductions::cpu::reduce
