// Bits and arithmetic that nvcc has as functions.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "emulated.h"

EMULATED int __popc(unsigned x) { return std::popcount(x); }
EMULATED int __popcll(unsigned long long x) { return std::popcount(x); }
EMULATED int __clz(int x) { return std::countl_zero(unsigned(x)); }
EMULATED int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
EMULATED int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(unsigned(x)) + 1; }
EMULATED int __ffsll(long long x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1; }
EMULATED unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; i++) reversed |= (x >> i & 1u) << (31 - i);
  return reversed;
}
EMULATED unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
EMULATED unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
EMULATED unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned choice = selector >> 4 * i & 15, byte = unsigned(bytes >> 8 * (choice & 7)) & 255;
    result |= (choice & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return result;
}
EMULATED unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
EMULATED int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }

EMULATED int __float_as_int(float x) { return std::bit_cast<int>(x); }
EMULATED unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
EMULATED float __int_as_float(int x) { return std::bit_cast<float>(x); }
EMULATED float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
EMULATED long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
EMULATED double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
EMULATED int __double2hiint(double x) { return int(std::bit_cast<uint64_t>(x) >> 32); }
EMULATED int __double2loint(double x) { return int(std::bit_cast<uint64_t>(x)); }
EMULATED double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(uint64_t(uint32_t(high)) << 32 | uint32_t(low));
}

// Rounded to nearest, and never fused: the compiler runs with -ffp-contract=off.
EMULATED float __fadd_rn(float a, float b) { return a + b; }
EMULATED float __fsub_rn(float a, float b) { return a - b; }
EMULATED float __fmul_rn(float a, float b) { return a * b; }
EMULATED float __fdiv_rn(float a, float b) { return a / b; }
EMULATED float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
EMULATED float __fsqrt_rn(float x) { return std::sqrt(x); }
EMULATED double __dadd_rn(double a, double b) { return a + b; }
EMULATED double __dsub_rn(double a, double b) { return a - b; }
EMULATED double __dmul_rn(double a, double b) { return a * b; }
EMULATED double __ddiv_rn(double a, double b) { return a / b; }
EMULATED double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
EMULATED float rsqrtf(float x) { return 1 / std::sqrt(x); }
EMULATED float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }  // NaN gives 0

template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr auto max(A a, B b) {
  using C = std::common_type_t<A, B>;
  return C(a) < C(b) ? C(b) : C(a);
}
template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
constexpr auto min(A a, B b) {
  using C = std::common_type_t<A, B>;
  return C(b) < C(a) ? C(b) : C(a);
}
