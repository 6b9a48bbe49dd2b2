// The inner kernel: the steps of a chain of multiply-adds, for vectors of sums.
#pragma once
#include "../vector.h"

namespace torch_reductions::cpu::matmul {
namespace {

// ---------------------------------------------------------------- steps: Word is an operand of one, of kDepth elements

template <class A>
struct FusedStep {
  using Word = A;
  using Sum = A;
  static constexpr int kDepth = 1;
  static ALWAYS_INLINE Vector<A> apply(Vector<A> a, Vector<A> b, Vector<A> sum) { return fused(a, b, sum); }
};

template <class A>
struct WrappingStep {
  using Word = A;
  using Sum = A;
  static constexpr int kDepth = 1;
  static ALWAYS_INLINE Vector<A> apply(Vector<A> a, Vector<A> b, Vector<A> sum) { return a * b + sum; }
};

// Integers of up to 16 bits: a word is a pair of neighbours along k. The products and their sum are exact in 32 bits,
// except for 2 (-2^15)^2, which wraps as it should.
struct PairStep {
  using Word = uint32_t;
  using Sum = uint32_t;
  static constexpr int kDepth = 2;
  static ALWAYS_INLINE Vector<Sum> apply(Vector<Word> a, Vector<Word> b, Vector<Sum> sum) {
#if defined(__AVX512VNNI__)
    return Vector<Sum>(_mm512_dpwssd_epi32(__m512i(sum), __m512i(a), __m512i(b)));
#elif defined(__AVX512BW__)
    return Vector<Sum>(_mm512_madd_epi16(__m512i(a), __m512i(b))) + sum;
#elif defined(__AVX2__)
    return Vector<Sum>(_mm256_madd_epi16(__m256i(a), __m256i(b))) + sum;
#elif defined(__SSE2__)
    return Vector<Sum>(_mm_madd_epi16(__m128i(a), __m128i(b))) + sum;
#else
    const auto low = [](Vector<Word> x) { return Vector<Sum>(Vector<int32_t>(x << 16) >> 16); };
    const auto high = [](Vector<Word> x) { return Vector<Sum>(Vector<int32_t>(x) >> 16); };
    return low(a) * low(b) + high(a) * high(b) + sum;
#endif
  }
};

// Pairs of bfloat16, the first of each in the upper half of the word: two steps.
struct BFloat16TwoSteps {
  using Word = uint32_t;
  using Sum = float;
  static constexpr int kDepth = 2;
  static ALWAYS_INLINE Vector<Sum> apply(Vector<Word> a, Vector<Word> b, Vector<Sum> sum) {
    sum = fused(as<Vector<Sum>>(a & 0xffff0000), as<Vector<Sum>>(b & 0xffff0000), sum);
    return fused(as<Vector<Sum>>(a << 16), as<Vector<Sum>>(b << 16), sum);
  }
};

// Both in one instruction, which multiplies and adds the upper halves first, then the lower ones, each time rounded once
// to nearest, as the chain is. But it takes subnormal numbers for 0, and makes 0 of subnormal sums.
struct BFloat16PairStep : BFloat16TwoSteps {
  using Careful = BFloat16TwoSteps;
  // The bits of a missing element of the left factor; the right one's are 0. The product is -0, which changes no sum.
  static constexpr uint32_t kMissing = 0x8000;
  // Whether nothing is subnormal if a and b are the smallest exponents, as bits, of what is multiplied. Products are
  // multiples of 2^(a - 134) 2^(b - 134), and so are sums, rounded or not: if that is at least 2^-126, none of them is.
  static bool exact(uint32_t a, uint32_t b) { return a > 0 && b > 0 && a + b >= 142; }
#ifdef __AVX512BF16__
  static ALWAYS_INLINE Vector<Sum> apply(Vector<Word> a, Vector<Word> b, Vector<Sum> sum) {
    return Vector<Sum>(_mm512_dpbf16_ps(__m512(sum), __m512bh(a), __m512bh(b)));
  }
#endif
};

// The steps of a product of elements of S.
template <class S>
struct StepFor {
  using Type = std::conditional_t<!std::is_integral_v<S>, FusedStep<ProductOf<S>>,
                                  std::conditional_t<sizeof(S) <= 2, PairStep, WrappingStep<ProductOf<S>>>>;
};
#ifdef __AVX512BF16__
template <>
struct StepFor<BFloat16> {
  using Type = BFloat16PairStep;
};
#endif
template <class S>
using StepOf = typename StepFor<S>::Type;

// ---------------------------------------------------------------- chains

#if defined(__AVX512F__)
constexpr int kTileRows = 14;  // of sums in registers: 28 of 32 vectors
#else
constexpr int kTileRows = 6;  // 12 of 16
#endif
constexpr int kVectors = 2;  // of each row

// Continues, or begins, H chains in each lane of NV vectors; their values are kept in tile[H][NV vectors]. `a` is
// [steps][H], `b` is [steps][NV vectors] with `pitch` words from step to step.
template <class Step, int H, int NV>
__attribute__((noinline)) void chain(const typename Step::Word* a, const typename Step::Word* b, int64_t pitch,
                                     int64_t steps, bool begin, typename Step::Sum* tile) {
  using Word = typename Step::Word;
  using Sum = typename Step::Sum;
  constexpr int W = kLanes<Word>;
  Vector<Sum> sums[H][NV];
#pragma GCC unroll 16
  for (int i = 0; i < H; i++) {
#pragma GCC unroll 2
    for (int j = 0; j < NV; j++) sums[i][j] = begin ? Vector<Sum>{} : load(tile + (i * NV + j) * W);
  }
  for (; steps > 0; steps--, a += H, b += pitch) {
    Vector<Word> right[NV];
#pragma GCC unroll 2
    for (int j = 0; j < NV; j++) right[j] = load(b + j * W);
#pragma GCC unroll 16
    for (int i = 0; i < H; i++) {
      const Vector<Word> left = splat(a[i]);
#pragma GCC unroll 2
      for (int j = 0; j < NV; j++) sums[i][j] = Step::apply(left, right[j], sums[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < H; i++) {
#pragma GCC unroll 2
    for (int j = 0; j < NV; j++) store(tile + (i * NV + j) * W, sums[i][j]);
  }
}

template <class Step>
using Chain = void (*)(const typename Step::Word*, const typename Step::Word*, int64_t, int64_t, bool,
                       typename Step::Sum*);

// chains<Step>[H - 1][NV - 1]
template <class Step>
struct Chains {
  Chain<Step> of[kTileRows][kVectors];

  template <std::size_t... h>
  constexpr explicit Chains(std::index_sequence<h...>) : of{{chain<Step, h + 1, 1>, chain<Step, h + 1, 2>}...} {}
};
template <class Step>
constexpr Chains<Step> kChains{std::make_index_sequence<kTileRows>()};

}  // namespace
}  // namespace torch_reductions::cpu::matmul
