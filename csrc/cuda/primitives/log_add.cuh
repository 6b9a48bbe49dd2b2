// LogAdd of float32 in a GPU's own instructions: the bits of csrc/common/log_add.h, in fewer of them.
#pragma once
#include "../../common/operators.h"
#include "arithmetic.cuh"

namespace torch_reductions {

template <>
struct LogAdd<float> {
  using Value = float;
  static constexpr bool commutes = true;
  static HOST_DEVICE float identity() { return kLeast<float>; }
  // NaN wins by the larger one alone: the rest may take it, and the difference of equal infinities, for a number of
  // which e^t is 0.
  static __device__ __forceinline__ float combine(float x, float y) {
    const float larger = cuda::larger(x, y), difference = -fabsf(x - y);
    const auto [power, exponent] = exp_parts<65>(fmaxf(difference, kLeastExponent<float>));
    const float u = __uint_as_float(__float_as_uint(power) + uint32_t(exponent)) * 0x1p-65f;
    const float sum = larger + log_1_plus(u);  // outside the selection, which would be a branch around all this
    return difference == -kMost<float> ? larger : sum;
  }
};

}  // namespace torch_reductions
