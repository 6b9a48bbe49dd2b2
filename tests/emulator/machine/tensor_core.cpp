// All terms, the accumulator and the exact products, are aligned to the largest exponent among those that are not zero;
// each magnitude is cut 25 bits behind its point; their sum is exact, and is cut to float32. Measured on an H200: no
// difference in 168 million random sums.
#include "tensor_core.h"

#include <algorithm>
#include <bit>

namespace emulator {
namespace {

constexpr int kKept = 25;             // bits behind the point of the largest term
constexpr int kLeastExponent = -133;  // of the largest term
constexpr uint32_t kNan = 0x7fffffff, kInfinity = 0x7f800000;

// significand * 2^(exponent - fraction), the significand with its sign.
struct Term {
  int64_t significand;
  int exponent, fraction;
  bool nan = false, infinite = false;
};

Term decode(uint32_t bits, int exponent_bits, int fraction) {
  const int biased = int(bits >> fraction & ((1u << exponent_bits) - 1)), bias = (1 << (exponent_bits - 1)) - 1;
  const int64_t low = bits & ((1u << fraction) - 1);
  const bool special = biased == (1 << exponent_bits) - 1;
  const int64_t magnitude = biased > 0 ? low | int64_t(1) << fraction : low;
  const bool negative = bits >> (exponent_bits + fraction) & 1;
  return {negative ? -magnitude : magnitude, std::max(biased, 1) - bias, fraction, special && low != 0,
          special && low == 0};
}

Term product(const Term& a, const Term& b) {
  const bool zero_times_infinity = (a.infinite && b.significand == 0) || (b.infinite && a.significand == 0);
  return {a.significand * b.significand, a.exponent + b.exponent, a.fraction + b.fraction,
          a.nan || b.nan || zero_times_infinity, a.infinite || b.infinite};
}

int64_t aligned(const Term& term, int exponent) {
  const int shift = kKept - term.fraction + term.exponent - exponent;
  const int64_t magnitude = std::abs(term.significand);
  const int64_t cut = shift >= 0 ? magnitude << shift : shift > -64 ? magnitude >> -shift : 0;
  return term.significand < 0 ? -cut : cut;
}

// sum * 2^(exponent - kKept), cut to float32.
uint32_t to_float(int64_t sum, int exponent) {
  if (sum == 0) return 0;
  const uint32_t sign = sum < 0 ? 0x80000000 : 0;
  const uint64_t magnitude = uint64_t(std::abs(sum));
  const int top = std::bit_width(magnitude) - 1, value = top - kKept + exponent;
  if (value > 127) return sign | kInfinity;
  const bool normal = value >= -126;
  const int shift = normal ? top - 23 : -149 - (exponent - kKept);
  const uint64_t cut = shift <= 0 ? magnitude << -shift : shift < 64 ? magnitude >> shift : 0;
  if (normal) return sign | uint32_t((uint64_t(value + 126) << 23) + cut);
  return cut != 0 ? sign | uint32_t(cut) : 0;
}

}  // namespace

uint32_t tensor_step(const uint16_t (&a)[16], const uint16_t (&b)[16], uint32_t accumulator, Factor format) {
  const int exponent_bits = format == Factor::float16 ? 5 : 8, fraction = format == Factor::float16 ? 10 : 7;
  Term terms[17];
  for (int i = 0; i < 16; i++)
    terms[i] = product(decode(a[i], exponent_bits, fraction), decode(b[i], exponent_bits, fraction));
  terms[16] = decode(accumulator, 8, 23);
  bool nan = false, positive = false, negative = false;
  int exponent = kLeastExponent;
  for (const Term& term : terms) {
    nan |= term.nan;
    if (term.infinite) (term.significand < 0 ? negative : positive) = true;
    if (term.significand != 0) exponent = std::max(exponent, term.exponent);
  }
  if (nan || (positive && negative)) return kNan;
  if (positive || negative) return negative ? kInfinity | 0x80000000 : kInfinity;
  int64_t sum = 0;
  for (const Term& term : terms) sum += aligned(term, exponent);
  return to_float(sum, exponent);
}

}  // namespace emulator
