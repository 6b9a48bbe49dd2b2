// One step of a 9.0 tensor core, to the bit: 16 products of 16-bit factors and a float32 accumulator.
//
// The accumulator and the products, exact, are the terms of one sum. A term's exponent is its operand's, of a product
// the sum of its factors' (not normalised; a subnormal has the least normal's). The largest one among terms that are
// not zero, and at least -133, is the sum's. Each magnitude is truncated 25 bits below the sum's exponent; their sum is
// exact, and is rounded toward zero to float32. Zero is +0, what is too large is infinite, a NaN is 0x7fffffff.
// Measured on an H200: no difference in 168 million random sums of each type.
#pragma once
#include "dtype.h"

namespace torch_reductions {

inline constexpr int kTensorStep = 16;

// significand 2^(exponent - fraction bits). Where it is zero or special the exponent says so, and so does that of
// products; an infinity's significand is its sign, a NaN's is 0, as is that of infinity times zero.
struct TensorFactor {
  int16_t significand, exponent;
};
// Factors at one k, of N columns.
template <int N>
struct TensorFactors {
  int16_t significand[N], exponent[N];
};

namespace {  // compiled for several processors

constexpr int kTermBits = 25, kLeastTensorExponent = -133;
constexpr int kZeroExponent = -1000, kSpecialExponent = 4000, kSpecialTerm = kSpecialExponent + kZeroExponent;

template <class T>
constexpr int kFactorFraction = std::is_same_v<T, Half> ? 10 : 7;

// The significand and, returned, the exponent.
template <int kExponentBits, int kFraction>
HOST_DEVICE int32_t unpack(uint32_t bits, int32_t& significand) {
  constexpr int32_t kHighest = (1 << kExponentBits) - 1, kBias = kHighest / 2;
  const int32_t low = int32_t(bits & ((1u << kFraction) - 1)), biased = int32_t(bits >> kFraction) & kHighest;
  const int32_t finite = biased > 0 ? low | 1 << kFraction : low;
  const int32_t magnitude = biased == kHighest ? low == 0 : finite;
  significand = bits >> (kExponentBits + kFraction) & 1 ? -magnitude : magnitude;
  const int32_t exponent = finite == 0 ? kZeroExponent : (biased > 0 ? biased : 1) - kBias;
  return biased == kHighest ? kSpecialExponent : exponent;
}

template <class T>
HOST_DEVICE TensorFactor tensor_factor(T x) {
  int32_t significand;
  const int32_t exponent = unpack<15 - kFactorFraction<T>, kFactorFraction<T>>(x.bits, significand);
  return {int16_t(significand), int16_t(exponent)};
}

// A sum in which something is infinite or NaN.
template <int N>
uint32_t special_tensor_step(const TensorFactor* a, const TensorFactors<N>* b, int column, int32_t significand,
                             int32_t exponent) {
  bool nan = false, positive = false, negative = false;
  const auto add = [&](int32_t significand, int32_t exponent) {
    if (exponent < kSpecialTerm) return;
    if (significand == 0) nan = true;
    else (significand < 0 ? negative : positive) = true;
  };
  add(significand, exponent);
  for (int k = 0; k < kTensorStep; k++) {
    add(a[k].significand * b[k].significand[column], a[k].exponent + b[k].exponent[column]);
  }
  return nan || (positive && negative) ? 0x7fffffff : negative ? 0xff800000 : 0x7f800000;
}

// One step of N columns, whose accumulators are float32's bits.
template <class T, int N>
HOST_DEVICE void tensor_step(const TensorFactor* a, const TensorFactors<N>* b, uint32_t (&accumulators)[N]) {
  constexpr int kUp = kTermBits - 2 * kFactorFraction<T>, kNone = 31;  // a shift that leaves nothing of 27 bits
  int32_t significand[N], exponent[N], top[N], sum[N];
  for (int n = 0; n < N; n++) {
    exponent[n] = unpack<8, 23>(accumulators[n], significand[n]);
    top[n] = exponent[n] > kLeastTensorExponent ? exponent[n] : kLeastTensorExponent;
    sum[n] = 0;
  }
  for (int k = 0; k < kTensorStep; k++) {
    for (int n = 0; n < N; n++) {
      const int32_t of_term = a[k].exponent + b[k].exponent[n];
      top[n] = of_term > top[n] ? of_term : top[n];
    }
  }
  for (int k = 0; k < kTensorStep; k++) {
    for (int n = 0; n < N; n++) {
      const int32_t product = a[k].significand * b[k].significand[n];
      const int32_t below = top[n] - (a[k].exponent + b[k].exponent[n]);
      const int32_t truncated =
          int32_t(uint32_t(product < 0 ? -product : product) << kUp >> (below < kNone ? below : kNone));
      sum[n] += product < 0 ? -truncated : truncated;  // 16 of less than 2^27, and 2047^2 2^5 16 is less than 2^31
    }
  }
  int32_t highest = 0;
  for (int n = 0; n < N; n++) {
    const int32_t s = significand[n], below = top[n] - exponent[n];
    const int32_t truncated = int32_t(uint32_t(s < 0 ? -s : s) << (kTermBits - 23) >> (below < kNone ? below : kNone));
    const int32_t term = s < 0 ? -truncated : truncated;
    const bool negative = sum[n] < -term;
    const uint32_t total = uint32_t(sum[n]) + uint32_t(term), magnitude = negative ? 0 - total : total;
    // The highest bit, by the exponent of a float that cannot be rounded up to the next one.
    const float half = float(int32_t(magnitude >> 1 & ~(magnitude >> 2))) + 0.5f;
    uint32_t half_bits;
    __builtin_memcpy(&half_bits, &half, 4);
    const int32_t bit = int32_t(half_bits >> 23) - 126;
    // Of the normal numbers 24 bits are kept, of the others what stands at 2^-149 and above.
    const int32_t normal = bit - 23, subnormal = -149 + kTermBits - top[n];
    const int32_t down = normal > subnormal ? normal : subnormal;
    const uint32_t kept = down > 0 ? magnitude >> down : magnitude << -down;
    const int32_t biased = bit - kTermBits + top[n] + 126;  // the highest bit kept counts as one more
    const uint32_t finite = (uint32_t(biased > 0 ? biased : 0) << 23) + kept;
    const uint32_t result = magnitude == 0 ? 0 : biased >= 254 ? 0x7f800000 : finite;
    accumulators[n] = result == 0 ? 0 : result | (negative ? 0x80000000 : 0);
    highest = top[n] > highest ? top[n] : highest;
  }
  if (highest < kSpecialTerm) return;
  for (int n = 0; n < N; n++) {
    if (top[n] >= kSpecialTerm) accumulators[n] = special_tensor_step(a, b, n, significand[n], exponent[n]);
  }
}

}  // namespace
}  // namespace torch_reductions
