// Single elements: one step of a chain of fused multiply-adds, the larger of two, from storage to what it is computed
// in, and back.
#pragma once
#include "../../common/dtype.h"
#include "memory.cuh"

namespace torch_reductions::cuda {

// a b + c with one rounding, or wrapping.
__device__ __forceinline__ float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ __forceinline__ uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }
__device__ __forceinline__ uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c) { return a * b + c; }

// The larger one, NaN if either is; of zeros +0.
__device__ __forceinline__ float larger(float a, float b) {
#if !defined(CUDA_ON_CPU) && __CUDA_ARCH__ >= 800
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  return b > a || b != b || (b == a && __float_as_uint(b) == 0) ? b : a;
#endif
}

// An element as a factor of a product.
template <class T>
__device__ __forceinline__ ProductOf<T> factor(T x) {
  if constexpr (std::is_same_v<T, BFloat16>) return __uint_as_float(uint32_t(x.bits) << 16);
  else if constexpr (std::is_same_v<T, Half>) return half_to_float(x.bits);
  else return ProductOf<T>(x);
}

// Rounded to storage, once.
template <class Out, class A>
__device__ __forceinline__ Out rounded(A value) {
  if constexpr (std::is_same_v<Out, BFloat16>) return {bfloat16_bits(__float_as_uint(value))};
  else if constexpr (std::is_same_v<Out, Half>) return {float_to_half(value)};
  else return Out(value);
}

}  // namespace torch_reductions::cuda
