// LogAdd of float32 in a GPU's own instructions: the bits of csrc/common/log_add.h, in fewer of them. What is fused
// here multiplies exactly, so that it rounds but once there too.
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
    const float sum = larger + log_1_plus(exp_of_negative(fmaxf(difference, -104.0f)));
    return difference == -kMost<float> ? larger : sum;
  }

 private:
  static __device__ __forceinline__ float exp_of_negative(float t) {
    constexpr float kBias = 65, kRounder = 0x1.8p+23f + kBias;  // odd as the other one: halves go to the same integer
    const float sum = t * 0x1.715476p+0f + kRounder, n = sum - kRounder;
    const float r = __fmaf_rn(n, -0x1.62e4p-1f, t) - n * 0x1.7f7d1cp-20f, s = r * r;
    const float power = (exp_terms(r, s) * s + r) + 1.0f;  // e^r, whose exponent n + kBias joins
    return __uint_as_float(__float_as_uint(power) + (__float_as_uint(sum) << 23)) * 0x1p-65f;
  }
  static __device__ __forceinline__ float log_1_plus(float u) {
    const bool large = u >= 0.5f;
    const float f = large ? __fmaf_rn(u, 0.5f, -0.5f) : u, s = f * f;
    return f + (log_terms(f, s) * s + (large ? -0x1.05c61p-29f : 0.0f)) + (large ? 0x1.62e43p-1f : 0.0f);
  }
};

}  // namespace torch_reductions
