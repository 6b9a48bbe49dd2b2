// Global memory: streaming loads, accesses that several blocks share, and conversions that PTX does in one instruction.
//
// Every function with PTX has a plain body beside it for the emulator (CUDA_ON_CPU).
#pragma once
#include <cstdint>
#include <cstring>

#include "../../common/dtype.h"

namespace torch_reductions::cuda {

// Read once, evict first: what is not in the L2 is then read faster than with the default policy. Only for 16-byte
// loads: neighbouring lanes of narrower ones share sectors, which should stay.
__device__ __forceinline__ uint64_t evict_first() {
  uint64_t policy = 0;
#if !defined(CUDA_ON_CPU) && __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

#if !defined(CUDA_ON_CPU) && __CUDA_ARCH__ >= 800
#define LOAD_HINT ".L2::cache_hint"
#define LOAD_POLICY ", %5"
#else
#define LOAD_HINT ""
#define LOAD_POLICY ""
#endif

// The 16 bytes at p, or zeros where not valid. p is aligned.
__device__ __forceinline__ void load16(uint32_t (&words)[4], const void* p, [[maybe_unused]] uint64_t policy,
                                       bool valid) {
#ifdef CUDA_ON_CPU
  const uint4 w = valid ? *static_cast<const uint4*>(p) : uint4{};
  words[0] = w.x, words[1] = w.y, words[2] = w.z, words[3] = w.w;
#else
  asm volatile(
      "{\n\t.reg .pred q;\n\tsetp.ne.b32 q, %6, 0;\n\t"
      "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;\n\t"
      "@q ld.global.L1::no_allocate" LOAD_HINT ".v4.u32 {%0, %1, %2, %3}, [%4]" LOAD_POLICY ";\n\t}"
      : "=&r"(words[0]), "=&r"(words[1]), "=&r"(words[2]), "=&r"(words[3])
      : "l"(p), "l"(policy), "r"(int(valid)));
#endif
}

// The same where the bytes of all lanes are valid.
__device__ __forceinline__ void load16(uint32_t (&words)[4], const void* p, [[maybe_unused]] uint64_t policy) {
#ifdef CUDA_ON_CPU
  const uint4 w = *static_cast<const uint4*>(p);
  words[0] = w.x, words[1] = w.y, words[2] = w.z, words[3] = w.w;
#else
  asm volatile("ld.global.L1::no_allocate" LOAD_HINT ".v4.u32 {%0, %1, %2, %3}, [%4]" LOAD_POLICY ";"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(p), "l"(policy));
#endif
}
#undef LOAD_HINT
#undef LOAD_POLICY

// A vector that one access loads or stores.
template <class T, int N>
struct alignas(sizeof(T) * N) AlignedVector {
  T element[N];
};

// Does a vector of 16 bytes begin at p?
inline bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// The Bytes (1, 2, 4, 8 or 16) at p, which is aligned to them.
template <int Bytes>
__device__ __forceinline__ void load_words(uint32_t (&words)[(Bytes + 3) / 4], const void* p) {
  if constexpr (Bytes == 1) words[0] = *static_cast<const uint8_t*>(p);
  else if constexpr (Bytes == 2) words[0] = *static_cast<const uint16_t*>(p);
  else if constexpr (Bytes == 4) words[0] = *static_cast<const uint32_t*>(p);
  else if constexpr (Bytes == 8) {
    const uint2 w = *static_cast<const uint2*>(p);
    words[0] = w.x, words[1] = w.y;
  } else {
    const uint4 w = *static_cast<const uint4*>(p);
    words[0] = w.x, words[1] = w.y, words[2] = w.z, words[3] = w.w;
  }
}

// Eight bytes that other blocks read and write at the same time: one access, never torn.
__device__ __forceinline__ uint64_t load_relaxed(const uint64_t* p) {
  uint64_t value;
#ifdef CUDA_ON_CPU
  value = emulator::load_relaxed(p);
#else
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
#endif
  return value;
}
__device__ __forceinline__ void store_relaxed(uint64_t* p, uint64_t value) {
#ifdef CUDA_ON_CPU
  emulator::store_relaxed(p, value);
#else
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
#endif
}

__device__ __forceinline__ float half_to_float(uint16_t bits) {
#ifdef CUDA_ON_CPU
  _Float16 half;
  memcpy(&half, &bits, 2);
  return float(half);
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#endif
}

__device__ __forceinline__ uint16_t float_to_half(float value) {
  uint16_t bits;
#ifdef CUDA_ON_CPU
  const _Float16 half = _Float16(value);
  memcpy(&bits, &half, 2);
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#endif
  return bits;
}

// Two values as the lower and the upper half of a word; unspecified for NaN.
__device__ __forceinline__ uint32_t bfloat16_pair(float lower, float upper) {
#if !defined(CUDA_ON_CPU) && __CUDA_ARCH__ >= 800
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
  return pair;
#else
  return uint32_t(bfloat16_bits(__float_as_uint(upper))) << 16 | bfloat16_bits(__float_as_uint(lower));
#endif
}
__device__ __forceinline__ uint32_t half_pair(float lower, float upper) {
#if !defined(CUDA_ON_CPU) && __CUDA_ARCH__ >= 800
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
  return pair;
#else
  return uint32_t(float_to_half(upper)) << 16 | float_to_half(lower);
#endif
}

}  // namespace torch_reductions::cuda
