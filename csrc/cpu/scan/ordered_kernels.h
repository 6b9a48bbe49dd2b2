// The vector code of `ordered`: each ordered_*.cpp compiles it for one processor.
#pragma once
#include "ordered.h"
#include "ordered_columns.h"
#include "ordered_extremes.h"
#include "ordered_rows.h"

namespace torch_reductions::cpu {
namespace {

template <class Op, class A, class S>
void scan_lines(const ScanStrip& strip, const void* bases) {
  if (strip.columns) scan_columns<Op, A, S>(strip, static_cast<const A*>(bases));
  else scan_rows<Op, A, S>(strip, static_cast<const A*>(bases));
}

template <bool kMin, class C, class S>
void extreme_lines(const ScanStrip& strip, const void* bases) {
  if (strip.columns) extreme_columns<kMin, C, S>(strip, static_cast<const Indexed<C>*>(bases));
  else extreme_rows<kMin, C, S>(strip, static_cast<const Indexed<C>*>(bases));
}

// int64 is summed as uint64, in place: the same bits.
template <class S>
constexpr void add_storage(ScanKernels& kernels, Dtype dtype) {
  using A = std::conditional_t<std::is_integral_v<S>, uint64_t, Accumulator<S>>;  // unsigned, because it wraps
  using Summed = std::conditional_t<std::is_same_v<S, int64_t>, uint64_t, S>;
  const auto set = [&](Scan function, ScanLines scan) { kernels.scan[int(function)][int(dtype)] = scan; };
  set(Scan::cumsum, scan_lines<SumOf<A>, A, Summed>);
  set(Scan::cumprod, scan_lines<ProdOf<A>, A, Summed>);
  set(Scan::cummax, extreme_lines<false, Comparable<S>, S>);
  set(Scan::cummin, extreme_lines<true, Comparable<S>, S>);
}

constexpr ScanKernels make_kernels() {
  ScanKernels kernels{};
  add_storage<Half>(kernels, Dtype::float16);
  add_storage<BFloat16>(kernels, Dtype::bfloat16);
  add_storage<float>(kernels, Dtype::float32);
  add_storage<double>(kernels, Dtype::float64);
  add_storage<int8_t>(kernels, Dtype::int8);
  add_storage<uint8_t>(kernels, Dtype::uint8);
  add_storage<int16_t>(kernels, Dtype::int16);
  add_storage<int32_t>(kernels, Dtype::int32);
  add_storage<int64_t>(kernels, Dtype::int64);
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu
