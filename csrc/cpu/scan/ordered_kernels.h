// The vector code of `ordered`: each ordered_*.cpp compiles it for one processor.
#pragma once
#include "../../common/operators.h"  // Indexed, and no function of it
#include "../vector.h"
#include "ordered.h"

namespace torch_reductions::cpu {
namespace {

// At level l: a waiting block of 2^l elements, and the fold of the base and of all blocks before it.
template <class Op, class A, class S>
void scan_lines(const ScanStrip& s, const void* bases) {
  for (int64_t line = 0; line < s.lines; line++) {
    const S* input = static_cast<const S*>(s.input) + line * s.input_line;
    S* output = static_cast<S*>(s.output) + line * s.output_line;
    A waiting[64], before[64];
    for (A& base : before) base = bases ? static_cast<const A*>(bases)[line] : Op::identity;
    for (int64_t k = 0; k < s.length; k++) {
      A value = A(widen(input[k * s.input_step]));
      int level = 0;
      for (int64_t c = k; c & 1; c >>= 1) value = Op::combine(waiting[level++], value);
      waiting[level] = value;
      value = Op::combine(before[level], value);
      while (level-- > 0) before[level] = value;
      output[k * s.output_step] = narrow<S>(value);
    }
  }
}

template <bool kMin, class C, class S>
void extreme_lines(const ScanStrip& s, const void* bases) {
  for (int64_t line = 0; line < s.lines; line++) {
    const S* input = static_cast<const S*>(s.input) + line * s.input_line;
    S* output = static_cast<S*>(s.output) + line * s.output_line;
    int64_t* indices = s.indices + line * s.output_line;
    const Indexed<C>* base = static_cast<const Indexed<C>*>(bases);
    C best = base ? base[line].value : C(widen(input[0]));
    int64_t index = base ? base[line].index : s.index;
    for (int64_t k = 0; k < s.length; k++) {
      const C x = C(widen(input[k * s.input_step]));
      if ((kMin ? x <= best : x >= best) || x != x) best = x, index = s.index + k * s.index_step;
      output[k * s.output_step] = narrow<S>(best);
      indices[k * s.output_step] = index;
    }
  }
}

template <class S>
constexpr void add_storage(ScanKernels& kernels, Dtype dtype) {
  using A = std::conditional_t<std::is_integral_v<S>, uint64_t, Accumulator<S>>;  // unsigned, because it wraps
  const auto set = [&](Scan function, ScanLines scan) { kernels.scan[int(function)][int(dtype)] = scan; };
  set(Scan::cumsum, scan_lines<SumOf<A>, A, S>);
  set(Scan::cumprod, scan_lines<ProdOf<A>, A, S>);
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
