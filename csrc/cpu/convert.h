// Conversions from storage to accumulator and back. Everything has internal linkage: files compiled for different
// processors include it, and the linker must not give one of them another's copy.
#pragma once
#include <cstdint>

#include "../common/dtype.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace torch_reductions::cpu {
namespace {

// The type in which maxima and minima are compared: integers as they are, half types as float.
template <class S>
using Comparable =
    std::conditional_t<std::is_integral_v<S>, std::conditional_t<sizeof(S) <= 4, int32_t, int64_t>, Accumulator<S>>;

template <class To, class From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

inline float widen(BFloat16 x) { return bit_cast<float>(uint32_t(x.bits) << 16); }

// Without a branch, so that loops of it are vectorized. A subnormal half is 2^-14 (1 + m) - 2^-14, exactly.
inline float widen(Half x) {
  const uint32_t magnitude = uint32_t(x.bits & 0x7fff) << 13, exponent = magnitude & 0x0f800000;
  const float subnormal = bit_cast<float>(magnitude + (113u << 23)) - bit_cast<float>(113u << 23);
  const uint32_t normal = magnitude + (exponent == 0x0f800000 ? 224u << 23 : 112u << 23);  // else Inf and NaN
  return bit_cast<float>((exponent == 0 ? bit_cast<uint32_t>(subnormal) : normal) | uint32_t(x.bits & 0x8000) << 16);
}

inline uint8_t widen(Bool x) { return x.byte != 0; }

template <class S>
inline S widen(S x) {
  return x;
}

// Rounds to nearest, ties to even; a NaN stays a NaN. The sum with 0.5 rounds at 2^-24, the last bit of a subnormal.
inline uint16_t half_bits(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffff;
  const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - bit_cast<uint32_t>(0.5f);
  const uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
  const uint32_t beyond = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
  const uint32_t rounded = magnitude >= 0x477ff000 ? beyond : magnitude < 0x38800000 ? subnormal : normal;
  return uint16_t(rounded | (bits >> 16 & 0x8000));
}

template <class S, class A>
inline S narrow(A x) {
  if constexpr (std::is_same_v<S, Half>) return {half_bits(float(x))};
  else if constexpr (std::is_same_v<S, BFloat16>) return {bfloat16_bits(bit_cast<uint32_t>(float(x)))};
  else return S(x);
}

// n elements, `stride` apart, as contiguous accumulators. Not inlined: the loops are long, and it has many callers.
template <class A, class S>
__attribute__((noinline)) void widen(const S* input, int64_t stride, int64_t n, A* output) {
  if (stride == 1) {
#ifdef __AVX512F__
    if constexpr (std::is_same_v<S, Half>) {
      for (; n >= 16; n -= 16, input += 16, output += 16) {
        _mm512_storeu_ps(output, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(input))));
      }
    }
#endif
#ifdef __F16C__
    if constexpr (std::is_same_v<S, Half>) {
      for (; n >= 8; n -= 8, input += 8, output += 8) {
        _mm256_storeu_ps(output, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(input))));
      }
    }
#endif
    for (int64_t i = 0; i < n; i++) output[i] = A(widen(input[i]));
  } else if (stride == -1) {
    for (int64_t i = 0; i < n; i++) output[i] = A(widen(input[-i]));
  } else {
    for (int64_t i = 0; i < n; i++) output[i] = A(widen(input[i * stride]));
  }
}

}  // namespace
}  // namespace torch_reductions::cpu
