// Packing: the elements of a matrix in the order in which chains read them, as words, [step][lane].
//
// A lane is a row of a or a column of b. A matrix is contiguous across the lanes, or along k: then blocks are
// transposed in registers.
#pragma once
#include "ordered_steps.h"

namespace torch_reductions::cpu::matmul {
namespace {

// ---------------------------------------------------------------- elements as words

template <class S>
using WordOf = typename StepOf<S>::Word;

// A vector of n contiguous elements.
template <int n, class S>
ALWAYS_INLINE auto neighbours(const S* p) {
  using Storage = std::conditional_t<std::is_integral_v<S> || sizeof(S) >= 4, S, uint16_t>;
  typedef Storage V __attribute__((vector_size(sizeof(S) * n)));
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// A vector of n words.
template <class Word, int n>
struct WordsOf {
  typedef Word Type __attribute__((vector_size(sizeof(Word) * n)));
};
template <class Word, int n>
using Words = typename WordsOf<Word, n>::Type;

// n contiguous elements as words. Of a word that is a pair, only the lower half is set.
template <int n, class S>
ALWAYS_INLINE Words<WordOf<S>, n> words(const S* p) {
  using V = Words<WordOf<S>, n>;
  if constexpr (std::is_same_v<S, Half>) {
#ifdef __AVX512F__
    if constexpr (n == 16) return V(_mm512_cvtph_ps(__m256i(neighbours<n>(p))));
#endif
#ifdef __F16C__
    if constexpr (n == 8) return V(_mm256_cvtph_ps(__m128i(neighbours<n>(p))));
    if constexpr (n == 4) return V(_mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#endif
    V v;
    for (int i = 0; i < n; i++) v[i] = widen(p[i]);
    return v;
  } else if constexpr (std::is_same_v<S, BFloat16> && StepOf<S>::kDepth == 1) {
    return as<V>(__builtin_convertvector(neighbours<n>(p), Words<uint32_t, n>) << 16);
  } else if constexpr (StepOf<S>::kDepth == 2) {
    return V(__builtin_convertvector(neighbours<n>(p), Words<int32_t, n>)) & 0xffff;
  } else {
    return V(neighbours<n>(p));
  }
}

// Two neighbours along k, each in the lower half of a word, as a pair.
template <class S, class V>
ALWAYS_INLINE V paired(V first, V second) {
  return std::is_same_v<S, BFloat16> ? first << 16 | second : first | second << 16;
}

// n steps of one lane, contiguous in memory.
template <int n, class S>
ALWAYS_INLINE Words<WordOf<S>, n> words_along_k(const S* p) {
  if constexpr (StepOf<S>::kDepth == 1) {
    return words<n>(p);
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    const auto swapped = as<Words<uint32_t, n>>(neighbours<2 * n>(p));
    return swapped << 16 | swapped >> 16;
  } else {
    return Words<uint32_t, n>(__builtin_convertvector(neighbours<2 * n>(p), Words<int16_t, 2 * n>));
  }
}

// One step of neighbouring lanes.
template <class S>
ALWAYS_INLINE Vector<WordOf<S>> words_along_lanes(const S* p, int64_t k_stride) {
  constexpr int W = kLanes<WordOf<S>>;
  if constexpr (StepOf<S>::kDepth == 1) return words<W>(p);
  else return paired<S>(words<W>(p), words<W>(p + k_stride));
}

// One step of one lane, of which `left` elements are left. `missing` is the bits of an element that is not there.
template <class S>
ALWAYS_INLINE WordOf<S> word(const S* p, int64_t k_stride, int64_t left, uint32_t missing = 0) {
  if constexpr (StepOf<S>::kDepth == 1) {
    return WordOf<S>(widen(*p));
  } else {
    const auto bits = [](S x) {
      if constexpr (std::is_integral_v<S>) return uint32_t(x) & 0xffff;
      else return uint32_t(x.bits);
    };
    return paired<S>(bits(*p), left > 1 ? bits(p[k_stride]) : missing);
  }
}

// The smallest magnitude other than 0 in packed words, where the step asks for it.
template <class S>
struct Smallest {
  ALWAYS_INLINE void see(auto) {}
  uint32_t exponent() const { return 0; }
};
#ifdef __AVX512BF16__
template <>
struct Smallest<BFloat16> {
  __m512i least = _mm512_set1_epi16(-1);  // less 1, and without the sign: so 0 is the largest

  ALWAYS_INLINE void see(Vector<uint32_t> pairs) {
    const __m512i magnitudes = _mm512_and_si512(__m512i(pairs), _mm512_set1_epi16(0x7fff));
    least = _mm512_min_epu16(least, _mm512_sub_epi16(magnitudes, _mm512_set1_epi16(1)));
  }
  ALWAYS_INLINE void see(uint32_t pair) { see(splat(pair)); }

  // As bits of a float, and larger than any if everything is 0.
  uint32_t exponent() const {
    uint16_t values[32], smallest = 0xffff;
    __builtin_memcpy(values, &least, sizeof values);
    for (const uint16_t value : values) smallest = value < smallest ? value : smallest;
    return (smallest + 1) >> 7;
  }
};
#endif

// ---------------------------------------------------------------- blocks of as many steps as lanes, transposed

template <class Word>
constexpr int kInGroup = 16 / sizeof(Word);  // words in 16 bytes: shuffles do not cross these

template <class Word>
using Group = Words<Word, kInGroup<Word>>;

template <class Word>
ALWAYS_INLINE Vector<Word> join(const Group<Word> (&groups)[kVectorBytes / 16]) {
#if defined(__AVX512F__)
  __m512i v = _mm512_castsi128_si512(__m128i(groups[0]));
  v = _mm512_inserti32x4(v, __m128i(groups[1]), 1);
  v = _mm512_inserti32x4(v, __m128i(groups[2]), 2);
  return Vector<Word>(_mm512_inserti32x4(v, __m128i(groups[3]), 3));
#elif defined(__AVX2__)
  return Vector<Word>(_mm256_inserti128_si256(_mm256_castsi128_si256(__m128i(groups[0])), __m128i(groups[1]), 1));
#else
  return groups[0];
#endif
}

// Interleaves units of `unit` words from the lower (upper) half of each group of a and b: lane i of the result as an
// index into both.
template <class Word>
constexpr int interleaved(int unit, bool upper, int i) {
  constexpr int E = kInGroup<Word>;
  const int place = i % E, from = (upper ? E / 2 : 0) + place / (2 * unit) * unit + place % unit;
  return i - place + from + (place / unit % 2 ? kLanes<Word> : 0);
}
template <class Word, int kUnit, bool kUpper, std::size_t... i>
ALWAYS_INLINE Vector<Word> interleave(Vector<Word> a, Vector<Word> b, std::index_sequence<i...>) {
#ifdef __clang__
  return __builtin_shufflevector(a, b, interleaved<Word>(kUnit, kUpper, i)...);
#else
  return __builtin_shuffle(a, b, LaneMask<Word>{interleaved<Word>(kUnit, kUpper, i)...});
#endif
}

// Transposes the groups of as many vectors as a group has words.
template <class Word>
ALWAYS_INLINE void transpose_groups(Vector<Word>* v) {
  constexpr auto kAll = std::make_index_sequence<kLanes<Word>>();
  if constexpr (kInGroup<Word> == 2) {
    const Vector<Word> a = v[0], b = v[1];
    v[0] = interleave<Word, 1, false>(a, b, kAll), v[1] = interleave<Word, 1, true>(a, b, kAll);
  } else {
    const Vector<Word> a = interleave<Word, 1, false>(v[0], v[1], kAll),
                       b = interleave<Word, 1, true>(v[0], v[1], kAll);
    const Vector<Word> c = interleave<Word, 1, false>(v[2], v[3], kAll),
                       d = interleave<Word, 1, true>(v[2], v[3], kAll);
    v[0] = interleave<Word, 2, false>(a, c, kAll), v[1] = interleave<Word, 2, true>(a, c, kAll);
    v[2] = interleave<Word, 2, false>(b, d, kAll), v[3] = interleave<Word, 2, true>(b, d, kAll);
  }
}

// A vector's lanes, each contiguous along k. Beyond `count` lanes the last one is repeated.
template <class S>
struct LanesAlongK {
  static constexpr int W = kLanes<WordOf<S>>, E = kInGroup<WordOf<S>>;
  const S* lanes[W];

  ALWAYS_INLINE LanesAlongK(const S* p, int64_t stride, int64_t count) {
    for (int i = 0; i < W; i++) lanes[i] = p + (i < count ? i : count - 1) * stride;
  }

  // Prefetches the cache line so many elements ahead in each lane, into the second-level cache: the hardware does not
  // recognize this pattern.
  ALWAYS_INLINE void prefetch(int64_t elements) const {
#pragma GCC unroll 16
    for (int i = 0; i < W; i++) __builtin_prefetch(lanes[i] + elements, 0, 2);
  }

  // Loads as many steps as there are lanes, from element k on. Each group of a vector is loaded from its own lane, so
  // that nothing has to be moved between groups.
  ALWAYS_INLINE void load(int64_t k, Vector<WordOf<S>> (&steps)[W]) const {
#pragma GCC unroll 4
    for (int r = 0; r < E; r++) {
#pragma GCC unroll 4
      for (int step = 0; step < W; step += E) {
        Group<WordOf<S>> groups[W / E];
#pragma GCC unroll 4
        for (int g = 0; g < W / E; g++) groups[g] = words_along_k<E>(lanes[g * E + r] + k + step * StepOf<S>::kDepth);
        steps[step + r] = join<WordOf<S>>(groups);
      }
    }
#pragma GCC unroll 4
    for (int step = 0; step < W; step += E) transpose_groups<WordOf<S>>(steps + step);
  }
};

// ---------------------------------------------------------------- panels

// An operand, or a part of one, as [lanes][k].
template <class S>
struct Lanes {
  const S* at;
  int64_t count, stride, k_stride;
};

// Packs the first `taken` lanes and k elements as to[steps][pitch], where pitch is `taken`, or more and a multiple of
// the vector's width; the lanes beyond `taken` are undefined. Up to a vector behind the end is overwritten. An element
// that completes the last pair has the bits `missing`. Returns the smallest exponent, where the step asks for it.
template <class S>
__attribute__((noinline)) uint32_t pack(Lanes<S> from, int64_t taken, int64_t k, WordOf<S>* to, int64_t pitch,
                                        uint32_t missing) {
  constexpr int W = kLanes<WordOf<S>>, kDepth = StepOf<S>::kDepth;
  const int64_t whole = k / kDepth, steps = (k + kDepth - 1) / kDepth;
  int64_t done = 0;
  Smallest<S> smallest;
  if (from.stride == 1 && (taken + W - 1) / W * W <= from.count) {
    // A vector may overwrite the beginning of the next step, which is written later.
    for (; done < whole; done++) {
      const S* const at = from.at + done * kDepth * from.k_stride;
      for (int64_t i = 0; i < taken; i += W) {
        const auto words = words_along_lanes(at + i, from.k_stride);
        smallest.see(words);
        store(to + done * pitch + i, words);
      }
    }
  } else if (from.k_stride == 1 && whole >= W) {
    // From the last lanes to the first ones, for the same reason.
    for (int64_t i = (taken - 1) / W * W; i >= 0; i -= W) {
      const LanesAlongK<S> lanes(from.at + i * from.stride, from.stride, taken - i);
      for (done = 0; done < whole; done += W) {
        if (done > whole - W) done = whole - W;  // the last block overlaps the one before, with the same words
        Vector<WordOf<S>> block[W];
        lanes.load(done * kDepth, block);
#pragma GCC unroll 16
        for (int r = 0; r < W; r++) {
          smallest.see(block[r]);
          store(to + (done + r) * pitch + i, block[r]);
        }
      }
    }
    done = whole;
  }
  for (; done < steps; done++) {
    const int64_t element = done * kDepth;
    const S* const at = from.at + element * from.k_stride;
    for (int64_t i = 0; i < taken; i++) {
      const auto one = word(at + i * from.stride, from.k_stride, k - element, missing);
      smallest.see(one);
      to[done * pitch + i] = one;
    }
  }
  return smallest.exponent();
}

}  // namespace
}  // namespace torch_reductions::cpu::matmul
