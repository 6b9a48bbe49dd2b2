// Words of two halves or of four bytes, without unpacking them; and the larger float in one instruction.
#pragma once
#include "thread.cuh"

namespace torch_reductions::cuda {

// Whether two halves can be compared in one instruction.
#if defined(CUDA_ON_CPU) || __CUDA_ARCH__ >= 900
inline constexpr bool kComparesPairs = true;
#else
inline constexpr bool kComparesPairs = false;
#endif

// sum plus the unsigned bytes (Bytes == 1) or the signed 16-bit integers (Bytes == 2) of the word.
template <int Bytes>
__device__ __forceinline__ int add_parts(uint32_t word, int sum) {
#ifdef CUDA_ON_CPU
  for (int i = 0; i < 4 / Bytes; i++) sum += Bytes == 1 ? int(uint8_t(word >> 8 * i)) : int(int16_t(word >> 16 * i));
  return sum;
#else
  if constexpr (Bytes == 1) return int(__dp4a(word, 0x01010101u, unsigned(sum)));
  else return __dp2a_lo(int(word), 0x0101, sum);
#endif
}

// The larger one, NaN if either is; of zeros +0.
__device__ __forceinline__ float larger(float a, float b) {
#ifdef CUDA_ON_CPU
  return b > a || is_nan(b) || (b == a && __float_as_uint(b) == 0) ? b : a;
#else
  float larger = 0;
#if __CUDA_ARCH__ >= 900
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
#endif
  return larger;
#endif
}

// The larger one of each pair of unsigned 16-bit integers.
__device__ __forceinline__ uint32_t larger_integers(uint32_t a, uint32_t b) {
#ifdef CUDA_ON_CPU
  const uint32_t low = (a & 0xffffu) > (b & 0xffffu) ? a : b, high = a >> 16 > b >> 16 ? a : b;
  return (low & 0xffffu) | (high & 0xffff0000u);
#else
  uint32_t larger = 0;
#if __CUDA_ARCH__ >= 900
  asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
#endif
  return larger;
#endif
}

// The same of halves, NaN if either is; of zeros +0.
template <class T>
__device__ __forceinline__ uint32_t larger_pair(uint32_t a, uint32_t b) {
#ifdef CUDA_ON_CPU
  uint32_t words[2] = {a, b}, larger = 0;
  for (int i = 0; i < 2; i++) {
    const float x = element<T>(words, i), y = element<T>(words + 1, i);
    const bool second = y > x || is_nan(y) || (y == x && words[1] >> (16 * i + 15) == 0);
    larger |= words[second ? 1 : 0] & 0xffffu << 16 * i;
  }
  return larger;
#else
  uint32_t larger = 0;
#if __CUDA_ARCH__ >= 900
  if constexpr (std::is_same_v<T, BFloat16>) asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  else asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
#endif
  return larger;
#endif
}

// All bits of each half where a > b.
template <class T>
__device__ __forceinline__ uint32_t greater_pair(uint32_t a, uint32_t b) {
#ifdef CUDA_ON_CPU
  uint32_t greater = 0;
  for (int i = 0; i < 2; i++)
    if (element<T>(&a, i) > element<T>(&b, i)) greater |= 0xffffu << 16 * i;
  return greater;
#else
  uint32_t greater = 0;
#if __CUDA_ARCH__ >= 900
  if constexpr (std::is_same_v<T, BFloat16>) asm("set.gt.u32.bf16x2 %0, %1, %2;" : "=r"(greater) : "r"(a), "r"(b));
  else asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(greater) : "r"(a), "r"(b));
#endif
  return greater;
#endif
}

}  // namespace torch_reductions::cuda
