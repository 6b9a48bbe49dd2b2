// One element of a sum. Internal linkage: files compiled for different processors include it.
#pragma once
#include "../../common/args.h"
#include "../convert.h"

namespace torch_reductions::cpu::add {
namespace {

// a + alpha b with one rounding, or wrapping.
inline float sum_of(float a, float alpha, float b) { return __builtin_fmaf(alpha, b, a); }
inline double sum_of(double a, double alpha, double b) { return __builtin_fma(alpha, b, a); }
template <class A>
inline A sum_of(A a, A alpha, A b) {
  using Wide = std::conditional_t<sizeof(A) == 8, uint64_t, uint32_t>;  // small types would be multiplied as int
  return A(Wide(a) + Wide(alpha) * Wide(b));
}

// A factor in the type of the sums; a negative one of integers wraps.
template <class A>
inline A factor_of(double alpha) {
  if constexpr (std::is_floating_point_v<A>) return A(alpha);
  else return A(int64_t(alpha));
}

}  // namespace
}  // namespace torch_reductions::cpu::add
