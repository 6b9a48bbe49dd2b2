// log(exp(x) + exp(y)), the same bits on the CPU and on the GPU: one source for scalars and for GCC's vectors.
//
// Nothing but additions and multiplications, each rounded alone (no contraction, on either side), comparisons,
// selections and shifts of bits: no table, no division, no mathematical library. Coefficients by Remez's algorithm;
// both functions are within 2 units in the last place (tests/kernels/test_log_add.py).
//
// Always inlined, and so without symbols, because files that are compiled for different processors include it.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "dtype.h"

namespace torch_reductions {

// What a V holds, and the integers that have its bits: V is float, double, or a vector of them.
template <class V>
struct LanesOf {
  using Element = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
  using Bits = decltype(std::declval<V>() < std::declval<V>());
};
template <>
struct LanesOf<float> {
  using Element = float;
  using Bits = int32_t;
};
template <>
struct LanesOf<double> {
  using Element = double;
  using Bits = int64_t;
};

// c[0] + c[2] s + c[4] s^2 + ...
template <class V, class A>
HOST_DEVICE V even_terms(V, A c) {
  return V{} + c;
}
template <class V, class A>
HOST_DEVICE V even_terms(V, A c, A) {
  return V{} + c;
}
template <class V, class A, class... More>
HOST_DEVICE V even_terms(V s, A c, A, More... more) {
  return even_terms(s, more...) * s + c;
}

// c[0] + c[1] x + c[2] x^2 + ..., in two chains; s is x squared.
template <class V, class A, class... More>
HOST_DEVICE V polynomial(V x, V s, A c, More... more) {
  return even_terms(s, c, more...) + even_terms(s, more...) * x;
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; s is r squared.
template <class V>
HOST_DEVICE V exp_terms(V r, V s) {
  if constexpr (sizeof(typename LanesOf<V>::Element) == 4) {
    return polynomial(r, s, 0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.1239e2p-7f, 0x1.6a2434p-10f);
  } else {
    return polynomial(r, s, 0x1.000000000000ap-1, 0x1.55555555554fap-3, 0x1.555555555087cp-5, 0x1.1111111127be8p-7,
                      0x1.6c16c1842a114p-10, 0x1.a01a012a56bc5p-13, 0x1.a0199a0c689d3p-16, 0x1.71df25549ece4p-19,
                      0x1.28ad72cb536c4p-22, 0x1.ad7f6aec3e623p-26);
  }
}

// (log(1 + f) - f) / f^2 for f from -1/4 to 1/2; s is f squared.
template <class V>
HOST_DEVICE V log_terms(V f, V s) {
  if constexpr (sizeof(typename LanesOf<V>::Element) == 4) {
    return polynomial(f, s, -0x1.000004p-1f, 0x1.5555c6p-2f, -0x1.fffbd6p-3f, 0x1.99590ap-3f, -0x1.55410cp-3f,
                      0x1.29d088p-3f, -0x1.0c79d8p-3f, 0x1.9c07fp-4f, -0x1.51f664p-5f);
  } else {
    return polynomial(f, s, -0x1.0000000000005p-1, 0x1.55555555556f0p-2, -0x1.ffffffffffeecp-3, 0x1.9999999965e44p-3,
                      -0x1.5555555470672p-3, 0x1.249249365e022p-3, -0x1.000000772174ep-3, 0x1.c71c6cb198f7ep-4,
                      -0x1.999966a5d2876p-4, 0x1.745d43aeafbf3p-4, -0x1.555abdeda886bp-4, 0x1.3b1c077dfbe48p-4,
                      -0x1.244d85a9b0b97p-4, 0x1.1013d349162dfp-4, -0x1.00ab2521d2a7dp-4, 0x1.f4e8efc050cbcp-5,
                      -0x1.e6dd5e9386e41p-5, 0x1.93518cb473995p-5, -0x1.c4917edc4e24bp-6, 0x1.e21a9f4b274c5p-8);
  }
}

// e^t for t <= 0; NaN stays. t is n ln 2 + r with |r| <= ln(2) / 2, and e^t is 2^n e^r.
template <class V>
HOST_DEVICE V exp_of_negative(V t) {
  using A = typename LanesOf<V>::Element;
  using Bits = typename LanesOf<V>::Bits;
  constexpr bool kSingle = sizeof(A) == 4;
  // Below, e^t is 0, and n would leave the exponent's range.
  constexpr A kLeast = kSingle ? -104 : -746;
  // Added to a number, it rounds it to an integer n and leaves n + kBias in the lowest bits of the sum.
  constexpr int kFraction = kSingle ? 23 : 52, kUp = kSingle ? 64 : 512, kBias = (kSingle ? 127 : 1023) + kUp;
  constexpr A kRounder = A(3ll << (kFraction - 1)) + kBias;
  constexpr A kLog2E = A(0x1.71547652b82fep+0);
  // n times the upper part of ln 2 is exact.
  constexpr A kUpper = kSingle ? 0x1.62e4p-1 : 0x1.62e42feep-1;
  constexpr A kLower = kSingle ? 0x1.7f7d1cp-20 : 0x1.a39ef35793c76p-33;

  t = t < kLeast ? V{} + kLeast : t;
  const V sum = t * kLog2E + kRounder, n = sum - kRounder;
  const V r = t - n * kUpper - n * kLower, s = r * r;
  const V scale = __builtin_bit_cast(V, Bits(__builtin_bit_cast(Bits, sum) << kFraction));  // 2^(n + kUp)
  return ((exp_terms(r, s) * s + r) + A(1)) * scale * A(kSingle ? 0x1p-64 : 0x1p-512);      // subnormal only at the end
}

// log(1 + u) for 0 <= u <= 1; NaN stays. 1 + u is 1 + f or 2 (1 + f), with f from -1/4 to 1/2, exactly.
template <class V>
HOST_DEVICE V log_1_plus(V u) {
  using A = typename LanesOf<V>::Element;
  constexpr bool kSingle = sizeof(A) == 4;
  const auto large = u >= A(0.5);
  const V f = large ? u * A(0.5) - A(0.5) : u, s = f * f;
  constexpr A kLn2 = kSingle ? 0x1.62e43p-1 : 0x1.62e42fefa39efp-1;  // and what it lacks
  constexpr A kRest = kSingle ? -0x1.05c61p-29 : 0x1.abc9e3b39803fp-56;
  const V upper = large ? V{} + kLn2 : V{}, lower = large ? V{} + kRest : V{};
  return f + (log_terms(f, s) * s + lower) + upper;
}

// The larger one and log(1 + e^(smaller - larger)). Two equal infinities stay, NaN wins, and -inf leaves the other
// operand as it is, to the bit.
template <class V>
HOST_DEVICE V log_add(V x, V y) {
  using A = typename LanesOf<V>::Element;
  const V larger = x < y ? y : x, smaller = x < y ? x : y;
  const V difference = smaller == larger ? V{} : smaller - larger;
  const V sum = larger + log_1_plus(exp_of_negative(difference));
  return smaller == A(-__builtin_inf()) ? larger : sum;
}

}  // namespace torch_reductions
