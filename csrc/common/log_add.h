// log(exp(x) + exp(y)), the same bits on the CPU and on the GPU: one source for scalars and for GCC's vectors.
//
// Nothing but additions and fused multiply-adds, each rounded alone, comparisons, selections and shifts of bits: no
// table, no division, no mathematical library. Coefficients by Remez's algorithm, one rounded after another; both
// functions are within 2 units in the last place (tests/kernels/test_log_add.py).
//
// Always inlined, and so without symbols, because files that are compiled for different processors include it.
#pragma once
#include <math.h>

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

// a b + c, rounded once. cpu/vector.h has those of vectors.
template <class V>
struct MultiplyAdd;
template <>
struct MultiplyAdd<float> {
  static HOST_DEVICE float of(float a, float b, float c) { return fmaf(a, b, c); }
};
template <>
struct MultiplyAdd<double> {
  static HOST_DEVICE double of(double a, double b, double c) { return fma(a, b, c); }
};

// c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule. Two chains, of even and odd powers, would cancel near x = 1.
template <class V, class A>
HOST_DEVICE V polynomial(V, A c) {
  return V{} + c;
}
template <class V, class A, class... More>
HOST_DEVICE V polynomial(V x, A c, More... more) {
  return MultiplyAdd<V>::of(polynomial(x, more...), x, V{} + c);
}

// Below it, e^t is 0, and n would leave the exponent's range.
template <class A>
inline constexpr A kLeastExponent = sizeof(A) == 4 ? -104 : -746;

// e^t, for t from kLeastExponent to 0, is 2^n power; n + Up stands where an exponent stands.
template <class V>
struct ExpParts {
  V power;
  typename LanesOf<V>::Bits exponent;
};
// t is n ln 2 + r with |r| <= ln(2) / 2, and power is e^r.
template <int Up, class V>
HOST_DEVICE ExpParts<V> exp_parts(V t) {
  using A = typename LanesOf<V>::Element;
  using Bits = typename LanesOf<V>::Bits;
  constexpr bool kSingle = sizeof(A) == 4;
  // Added to a number, it rounds it to an integer n and leaves n + Up in the lowest bits of the sum.
  constexpr int kFraction = kSingle ? 23 : 52;
  constexpr A kRounder = A(3ll << (kFraction - 1)) + Up;
  constexpr A kLog2E = A(0x1.71547652b82fep+0);
  // n times the upper part of ln 2 is exact.
  constexpr A kUpper = kSingle ? 0x1.62e4p-1 : 0x1.62e42feep-1;
  constexpr A kLower = kSingle ? 0x1.7f7d1cp-20 : 0x1.a39ef35793c76p-33;

  const V sum = MultiplyAdd<V>::of(t, V{} + kLog2E, V{} + kRounder), n = sum - kRounder;
  const V r = MultiplyAdd<V>::of(n, V{} - kLower, MultiplyAdd<V>::of(n, V{} - kUpper, t));
  const Bits exponent = Bits(__builtin_bit_cast(Bits, sum) << kFraction);
  if constexpr (kSingle) {
    return {polynomial(r, A(1), A(1), 0x1.fffffcp-2f, 0x1.55557cp-3f, 0x1.555bd8p-5f, 0x1.11b048p-7f, 0x1.668d98p-10f),
            exponent};
  } else {
    return {polynomial(r, A(1), A(1), 0x1.000000000000ap-1, 0x1.555555555557fp-3, 0x1.5555555550d1ap-5,
                       0x1.111111110fdb4p-7, 0x1.6c16c182b3c9bp-10, 0x1.a01a018c0256bp-13, 0x1.a0199e5b8ecacp-16,
                       0x1.71de7ade0d598p-19, 0x1.28a9708c68179p-22, 0x1.ae5748d6938fep-26),
            exponent};
  }
}

// e^t for t <= 0; NaN stays.
template <class V>
HOST_DEVICE V exp_of_negative(V t) {
  using A = typename LanesOf<V>::Element;
  constexpr int kUp = sizeof(A) == 4 ? 64 : 512, kBias = sizeof(A) == 4 ? 127 : 1023;
  const auto [power, exponent] = exp_parts<kBias + kUp>(t < kLeastExponent<A> ? V{} + kLeastExponent<A> : t);
  return power * __builtin_bit_cast(V, exponent) * A(sizeof(A) == 4 ? 0x1p-64 : 0x1p-512);  // subnormal only at the end
}

// log(1 + u) for 0 <= u <= 1, u + u^2 (...); NaN stays.
template <class V>
HOST_DEVICE V log_1_plus(V u) {
  V terms;
  if constexpr (sizeof(typename LanesOf<V>::Element) == 4) {
    terms = polynomial(u, -0x1.ffffd2p-2f, 0x1.554ddp-2f, -0x1.ff23f4p-3f, 0x1.934ccp-3f, -0x1.3a4e2ap-3f,
                       0x1.b4f5cep-4f, -0x1.d79b28p-5f, 0x1.4a8ap-6f, -0x1.b2ced6p-9f);
  } else {
    terms = polynomial(u, -0x1.fffffffffff9fp-2, 0x1.5555555551051p-2, -0x1.fffffffdd49bfp-3, 0x1.99999951fa00ap-3,
                       -0x1.55554fbe543bcp-3, 0x1.2491fed91ca29p-3, -0x1.fffa8bc58e03ap-4, 0x1.c6f6a802d496dp-4,
                       -0x1.98d295d2da81ap-4, 0x1.712df348269ffp-4, -0x1.4b0219c3d90bp-4, 0x1.202de533191a7p-4,
                       -0x1.d7112fbfe859fp-5, 0x1.5a890232d9675p-5, -0x1.b63236f694f29p-6, 0x1.c57e983962a66p-7,
                       -0x1.6b4e01e0b2d85p-8, 0x1.a25b72fae6952p-10, -0x1.31f866c3f6746p-12, 0x1.a905e0e5dd6e2p-16);
  }
  return MultiplyAdd<V>::of(terms, u * u, u);
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
