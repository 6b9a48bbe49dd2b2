// Words of two halves or of four bytes, without unpacking them.
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

// The larger one of each pair of unsigned 16-bit integers.
__device__ __forceinline__ uint32_t larger_integers(uint32_t a, uint32_t b) {
  uint32_t larger = 0;
#ifdef CUDA_ON_CPU
  for (const uint32_t half : {0xffffu, 0xffff0000u}) larger |= (a & half) > (b & half) ? a & half : b & half;
#else
  asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
#endif
  return larger;
}

// The same of halves, NaN if either is; of zeros +0.
template <class T>
__device__ __forceinline__ uint32_t larger_pair(uint32_t a, uint32_t b) {
  uint32_t pair = 0;
#ifdef CUDA_ON_CPU
  const float lower = larger(element<T>(&a, 0), element<T>(&b, 0)),
              upper = larger(element<T>(&a, 1), element<T>(&b, 1));
  pair = std::is_same_v<T, BFloat16> ? bfloat16_pair(lower, upper) : half_pair(lower, upper);
#else
  if constexpr (std::is_same_v<T, BFloat16>) asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
  else asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
#endif
  return pair;
}

// All bits of each half where a > b.
template <class T>
__device__ __forceinline__ uint32_t greater_pair(uint32_t a, uint32_t b) {
  uint32_t pair = 0;
#ifdef CUDA_ON_CPU
  for (int i = 0; i < 2; i++)
    if (element<T>(&a, i) > element<T>(&b, i)) pair |= 0xffffu << 16 * i;
#else
  if constexpr (std::is_same_v<T, BFloat16>) asm("set.gt.u32.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
  else asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(a), "r"(b));
#endif
  return pair;
}

}  // namespace torch_reductions::cuda
