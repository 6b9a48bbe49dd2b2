// GCC's vectors of the processor that a file is compiled for, and the operators that serve scalars and vectors alike.
//
// Everything has internal linkage and uses no function of std::, so that the linker cannot mix up code for different
// processors.
#pragma once
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "../common/log_add.h"
#include "convert.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace torch_reductions::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class A>
struct VectorOf {
  typedef A Type __attribute__((vector_size(kVectorBytes)));
};
template <class A>
using Vector = typename VectorOf<A>::Type;
template <class A>
using LaneMask = Vector<std::conditional_t<sizeof(A) == 4, int32_t, int64_t>>;
template <class A>
constexpr int kLanes = kVectorBytes / int(sizeof(A));

constexpr int log2(int n) { return n == 1 ? 0 : 1 + log2(n / 2); }

template <class A>
ALWAYS_INLINE Vector<A> load(const A* p) {
  Vector<A> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class A>
ALWAYS_INLINE void store(A* p, Vector<A> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

template <class A>
ALWAYS_INLINE Vector<A> splat(A x) {
  return x - Vector<A>{};  // x - 0 is x, also for -0
}

template <class V>
ALWAYS_INLINE V as(auto v) {
  static_assert(sizeof(V) == sizeof v);
  V to;
  __builtin_memcpy(&to, &v, sizeof to);
  return to;
}

// ---------------------------------------------------------------- a b + c, rounded once

#if defined(__AVX512F__)
ALWAYS_INLINE Vector<float> fused(Vector<float> a, Vector<float> b, Vector<float> c) {
  return Vector<float>(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
}
ALWAYS_INLINE Vector<double> fused(Vector<double> a, Vector<double> b, Vector<double> c) {
  return Vector<double>(_mm512_fmadd_pd(__m512d(a), __m512d(b), __m512d(c)));
}
#elif defined(__FMA__)
ALWAYS_INLINE Vector<float> fused(Vector<float> a, Vector<float> b, Vector<float> c) {
  return Vector<float>(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
}
ALWAYS_INLINE Vector<double> fused(Vector<double> a, Vector<double> b, Vector<double> c) {
  return Vector<double>(_mm256_fmadd_pd(__m256d(a), __m256d(b), __m256d(c)));
}
#else
#ifdef __FP_FAST_FMAF  // the processor has the instruction, which GCC offers only as a builtin for scalars
ALWAYS_INLINE Vector<float> fused(Vector<float> a, Vector<float> b, Vector<float> c) {
  for (int i = 0; i < kLanes<float>; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
#else
typedef double Doubles __attribute__((vector_size(8 * kLanes<float>)));
typedef uint64_t DoubleBits __attribute__((vector_size(8 * kLanes<float>)));

// The product is exact in double, and so is the error of the sum, by which the sum is rounded to odd: then rounding it
// once more, to float, gives the correct result, because a double has more than two extra bits (Boldo and Melquiond,
// Emulation of FMA and Correctly Rounded Sums, 2008).
ALWAYS_INLINE Vector<float> fused(Vector<float> a, Vector<float> b, Vector<float> c) {
  const Doubles product = __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles);
  const Doubles other = __builtin_convertvector(c, Doubles), sum = product + other, back = sum - product;
  const Doubles error = (product - (sum - back)) + (other - back);
  const DoubleBits bits = as<DoubleBits>(sum), away = 1 - 2 * ((bits ^ as<DoubleBits>(error)) >> 63);
  const DoubleBits inexact =
      DoubleBits(error < 0) | DoubleBits(error > 0);  // false for NaN, where the sum is not finite
  const DoubleBits even = (bits & 1) - 1;
  return __builtin_convertvector(as<Doubles>(bits + (away & inexact & even)), Vector<float>);
}
#endif
// The C library's fma is correct on every processor.
ALWAYS_INLINE Vector<double> fused(Vector<double> a, Vector<double> b, Vector<double> c) {
  for (int i = 0; i < kLanes<double>; i++) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
}
#endif

}  // namespace
}  // namespace torch_reductions::cpu

namespace torch_reductions {

template <>
struct MultiplyAdd<cpu::Vector<float>> {
  using V = cpu::Vector<float>;
  static ALWAYS_INLINE V of(V a, V b, V c) { return cpu::fused(a, b, c); }
};
template <>
struct MultiplyAdd<cpu::Vector<double>> {
  using V = cpu::Vector<double>;
  static ALWAYS_INLINE V of(V a, V b, V c) { return cpu::fused(a, b, c); }
};

}  // namespace torch_reductions

namespace torch_reductions::cpu {
namespace {

// ---------------------------------------------------------------- operators: T is an A or a vector of them

template <class A>
struct SumOf {
  static constexpr A identity = std::is_floating_point_v<A> ? A(-0.0) : A(0);
  template <class T>
  static ALWAYS_INLINE T combine(T left, T right) {
    return left + right;
  }
};

template <class A>
struct ProdOf {
  static constexpr A identity = 1;
  template <class T>
  static ALWAYS_INLINE T combine(T left, T right) {
    return left * right;
  }
};

template <class A>
struct LogAddOf {
  static constexpr A identity = -A(__builtin_inf());
  template <class T>
  static ALWAYS_INLINE T combine(T left, T right) {
    return log_add(left, right);
  }
};

// ---------------------------------------------------------------- memory

// The elements [k, k + n) of a row as contiguous accumulators: the input itself where it has this form.
template <class A, class S>
ALWAYS_INLINE const A* contiguous(const S* row, int64_t stride, int64_t k, int64_t n, A* buffer) {
  if constexpr (std::is_same_v<A, S>) {
    if (stride == 1) return row + k;
  }
  widen(row + k * stride, stride, n, buffer);
  return buffer;
}

// The first column of the vector that begins at column i of a strip. The last vector is moved back, so that it overlaps
// the one before it and computes the same bits again.
template <class A>
ALWAYS_INLINE int64_t column(int64_t i, int64_t columns) {
  constexpr int W = kLanes<A>;
  return columns < W ? 0 : i + W <= columns ? i : columns - W;
}

// Halves to a vector of floats and back. The bits of a Half are those of half_bits, which has a single NaN, although the
// processor would keep the payload of a NaN.
#if defined(__AVX512F__)
ALWAYS_INLINE Vector<float> load_halves(const Half* p) {
  return Vector<float>(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}

ALWAYS_INLINE Vector<float> load_halves(const BFloat16* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return Vector<float>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

ALWAYS_INLINE void store_halves(Half* p, Vector<float> v) {
  const __mmask16 nan = _mm512_cmp_ps_mask(__m512(v), __m512(v), _CMP_UNORD_Q);
  __m512i bits = _mm512_castps_si512(__m512(v));
  bits = _mm512_mask_and_epi32(bits, nan, bits, _mm512_set1_epi32(int(0x80000000)));
  bits = _mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x7fc00000));
  const __m256i halves = _mm512_cvtps_ph(_mm512_castsi512_ps(bits), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), halves);
}
#elif defined(__F16C__)
ALWAYS_INLINE Vector<float> load_halves(const Half* p) {
  return Vector<float>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

ALWAYS_INLINE Vector<float> load_halves(const BFloat16* p) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return Vector<float>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

ALWAYS_INLINE void store_halves(Half* p, Vector<float> v) {
  const __m256 values = __m256(v), sign = _mm256_and_ps(values, _mm256_set1_ps(-0.0f));
  const __m256 nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
  const __m256 one_nan = _mm256_blendv_ps(values, nan, _mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(one_nan, _MM_FROUND_TO_NEAREST_INT));
}
#endif

// Whether one or two instructions convert a vector of elements: then load_as gives it as accumulators.
#ifdef __F16C__
template <class S>
constexpr bool kConvertedInRegisters = std::is_same_v<S, BFloat16> || std::is_same_v<S, Half>;
#else
template <class S>
constexpr bool kConvertedInRegisters = false;
#endif

template <class A, class S>
ALWAYS_INLINE Vector<A> load_as(const S* p) {
  if constexpr (std::is_same_v<A, S>) return load(p);
#ifdef __F16C__
  else return load_halves(p);
#endif
}

// n contiguous accumulators as storage, `stride` apart.
template <class A, class S>
__attribute__((noinline)) void narrow(const A* input, int64_t n, S* output, int64_t stride) {
  if (stride == 1) {
#ifdef __F16C__
    if constexpr (std::is_same_v<S, Half>) {
      for (; n >= kLanes<A>; n -= kLanes<A>, input += kLanes<A>, output += kLanes<A>) store_halves(output, load(input));
    }
#endif
    for (int64_t i = 0; i < n; i++) output[i] = narrow<S>(input[i]);
  } else if (stride == -1) {
    for (int64_t i = 0; i < n; i++) output[-i] = narrow<S>(input[i]);
  } else {
    for (int64_t i = 0; i < n; i++) output[i * stride] = narrow<S>(input[i]);
  }
}

// Asks for what will be read two pages later, into the first-level cache: a tenth faster from the third-level cache and
// from memory, a twelfth slower in the first-level cache, where a call takes longer than its loop. Into the second-level
// cache alone it is slower everywhere on a Zen 5.
ALWAYS_INLINE void prefetch(const void* p, int64_t bytes) {
  constexpr int64_t kAhead = 8192;
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(p) + kAhead + i, 0, 3);
}

}  // namespace
}  // namespace torch_reductions::cpu
