// The vector code of `ordered`: each ordered_*.cpp compiles it for one processor.
#pragma once
#include "ordered.h"
#include "ordered_columns.h"
#include "ordered_extremes.h"
#include "ordered_mask.h"
#include "ordered_rows.h"
#include "ordered_runs.h"

namespace torch_reductions::cpu::scan {
namespace {

// S is the storage of the elements, R that of the results.
template <class Op, class A, class S, class R>
void scan_lines(const ScanStrip& strip, const void* bases) {
  if (strip.columns) scan_columns<Op, A, S, R>(strip, static_cast<const A*>(bases));
  else if (bases || strip.totals) scan_rows<true, Op, A, S, R>(strip, static_cast<const A*>(bases));
  else scan_rows<false, Op, A, S, R>(strip, nullptr);
}

// For LogAdd, which costs much more than a copy: short lines are scanned side by side in any layout.
constexpr int kShortLine = 256;
template <class A, class S>
void log_add_lines(const ScanStrip& strip, const void* bases) {
  const bool side_by_side = strip.columns || (strip.lines >= kLanes<A> && strip.length <= kShortLine);
  if (side_by_side) scan_columns<LogAddOf<A>, A, S, S>(strip, static_cast<const A*>(bases));
  else scan_runs<LogAddOf<A>, A, S>(strip, static_cast<const A*>(bases));
}

template <class A, class S>
void log_sum_lines(const ScanStrip& strip, void* folds) {
  if (strip.columns) fold_columns<LogAddOf<A>, A, S>(strip, static_cast<A*>(folds));
  else fold_runs<LogAddOf<A>, A, S>(strip, static_cast<A*>(folds));
}

template <bool kMin, class C, class S>
void extreme_lines(const ScanStrip& strip, const void* bases) {
  if (strip.columns) extreme_columns<kMin, C, S>(strip, static_cast<const Indexed<C>*>(bases));
  else extreme_rows<kMin, C, S>(strip, static_cast<const Indexed<C>*>(bases));
}

// int64 is summed as uint64, in place: the same bits.
template <class S>
constexpr void set_scan_kernels(ScanKernels& kernels, Dtype dtype) {
  using A = std::conditional_t<std::is_integral_v<S>, uint64_t, Accumulator<S>>;  // unsigned, because it wraps
  using Summed = std::conditional_t<std::is_same_v<S, int64_t>, uint64_t, S>;
  const auto set = [&](Scan function, ScanLines scan) { kernels.scan[int(function)][int(dtype)] = scan; };
  set(Scan::cumsum, scan_lines<SumOf<A>, A, Summed, Summed>);
  set(Scan::cumprod, scan_lines<ProdOf<A>, A, Summed, Summed>);
  if constexpr (std::is_floating_point_v<A>) {
    set(Scan::logcumsumexp, log_add_lines<A, S>);
    kernels.log_sum[int(dtype)] = log_sum_lines<A, S>;
  }
  set(Scan::cummax, extreme_lines<false, Comparable<S>, S>);
  set(Scan::cummin, extreme_lines<true, Comparable<S>, S>);
  kernels.hide[int(dtype)] = hide_elements<BitsOf<sizeof(S)>>;
}

template <class S>
constexpr void set_into_int64(ScanKernels& kernels, Dtype dtype) {
  kernels.into_int64[int(Scan::cumsum)][int(dtype)] = scan_lines<SumOf<uint64_t>, uint64_t, S, uint64_t>;
  kernels.into_int64[int(Scan::cumprod)][int(dtype)] = scan_lines<ProdOf<uint64_t>, uint64_t, S, uint64_t>;
}

constexpr ScanKernels make_scan_kernels() {
  ScanKernels kernels{};
  for (int dtype = 0; dtype < kDtypes; dtype++) {
    if (Dtype(dtype) == Dtype::boolean) continue;
    with_storage(Dtype(dtype), [&]<class S>(std::type_identity<S>) {
      set_scan_kernels<S>(kernels, Dtype(dtype));
      if constexpr (std::is_integral_v<S> && sizeof(S) < 8) set_into_int64<S>(kernels, Dtype(dtype));
    });
  }
  set_into_int64<Bool>(kernels, Dtype::boolean);  // is scanned as integers alone
  kernels.hide[int(Dtype::boolean)] = hide_elements<uint8_t>;
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu::scan
