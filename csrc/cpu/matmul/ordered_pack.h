// Packing: the elements of a matrix as the words that chains read, neighbouring lanes side by side, step after step.
//
// A lane is a row of a or a column of b. Elements follow one another in memory along the lanes, or along k: then blocks of
// as many steps as lanes are transposed in registers.
#pragma once
#include "ordered_steps.h"

namespace torch_reductions::cpu {
namespace {

// ---------------------------------------------------------------- transposing in registers

// Lane i of a vector made of two, as an index into both: of each group of 16 bytes the lower or upper `unit` lanes of both
// in turn (log2 of 16 bytes' lanes levels of it transpose inside the groups).
template <class Word>
constexpr int interleaved(int unit, bool upper, int i) {
  constexpr int E = 16 / sizeof(Word), W = kLanes<Word>;
  const int place = i % E, from = (upper ? E / 2 : 0) + place / (2 * unit) * unit + place % unit;
  return i - place + from + (place / unit % 2 ? W : 0);
}

// The groups of 16 bytes whose number lacks the bit `distance`, or has it, of both vectors: its own group of the vector on
// its side, its partner's of the other.
template <class Word>
constexpr int exchanged(int distance, bool upper, int i) {
  constexpr int E = 16 / sizeof(Word), W = kLanes<Word>;
  const bool other = i / E & distance;
  return (other == upper ? i : i ^ (distance * E)) + (other ? W : 0);
}

template <class Word, int kUnit, bool kUpper, std::size_t... i>
ALWAYS_INLINE Vector<Word> interleave(Vector<Word> a, Vector<Word> b, std::index_sequence<i...>) {
#ifdef __clang__
  return __builtin_shufflevector(a, b, interleaved<Word>(kUnit, kUpper, i)...);
#else
  return __builtin_shuffle(a, b, Mask<Word>{interleaved<Word>(kUnit, kUpper, i)...});
#endif
}
template <class Word, int kDistance, bool kUpper, std::size_t... i>
ALWAYS_INLINE Vector<Word> exchange(Vector<Word> a, Vector<Word> b, std::index_sequence<i...>) {
#ifdef __clang__
  return __builtin_shufflevector(a, b, exchanged<Word>(kDistance, kUpper, i)...);
#else
  return __builtin_shuffle(a, b, Mask<Word>{exchanged<Word>(kDistance, kUpper, i)...});
#endif
}

// Exchanges groups of 16 bytes between the rows whose numbers differ in one bit, for each bit from `kDistance` up.
template <class Word, int kDistance = 1>
ALWAYS_INLINE void transpose_groups(Vector<Word> (&v)[kLanes<Word>]) {
  constexpr int E = 16 / sizeof(Word), W = kLanes<Word>;
  constexpr auto kAll = std::make_index_sequence<W>();
  if constexpr (kDistance * E < W) {
#pragma GCC unroll 16
    for (int r = 0; r < W; r++) {
      if (r / E & kDistance) continue;
      const Vector<Word> a = v[r], b = v[r + kDistance * E];
      v[r] = exchange<Word, kDistance, false>(a, b, kAll);
      v[r + kDistance * E] = exchange<Word, kDistance, true>(a, b, kAll);
    }
    transpose_groups<Word, 2 * kDistance>(v);
  }
}

template <class Word>
ALWAYS_INLINE void transpose(Vector<Word> (&v)[kLanes<Word>]) {
  constexpr int E = 16 / sizeof(Word), W = kLanes<Word>;
  constexpr auto kAll = std::make_index_sequence<W>();
#pragma GCC unroll 16
  for (int r = 0; r < W; r += E) {
    if constexpr (E == 2) {
      const Vector<Word> a = v[r], b = v[r + 1];
      v[r] = interleave<Word, 1, false>(a, b, kAll), v[r + 1] = interleave<Word, 1, true>(a, b, kAll);
    } else {
      const Vector<Word> a = interleave<Word, 1, false>(v[r], v[r + 1], kAll);
      const Vector<Word> b = interleave<Word, 1, true>(v[r], v[r + 1], kAll);
      const Vector<Word> c = interleave<Word, 1, false>(v[r + 2], v[r + 3], kAll);
      const Vector<Word> d = interleave<Word, 1, true>(v[r + 2], v[r + 3], kAll);
      v[r] = interleave<Word, 2, false>(a, c, kAll), v[r + 1] = interleave<Word, 2, true>(a, c, kAll);
      v[r + 2] = interleave<Word, 2, false>(b, d, kAll), v[r + 3] = interleave<Word, 2, true>(b, d, kAll);
    }
  }
  transpose_groups<Word>(v);
}

// ---------------------------------------------------------------- elements as words

template <class S>
using WordOf = typename StepOf<S>::Word;

// As many neighbours in memory as a vector has words.
template <class S>
ALWAYS_INLINE auto neighbours(const S* p) {
  using Storage = std::conditional_t<std::is_integral_v<S> || sizeof(S) >= 4, S, uint16_t>;
  typedef Storage V __attribute__((vector_size(sizeof(S) * kLanes<WordOf<S>>)));
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Neighbours as words, of which a pair has its lower half alone.
template <class S>
ALWAYS_INLINE Vector<WordOf<S>> words(const S* p) {
  using Word = WordOf<S>;
  if constexpr (std::is_same_v<S, Half>) {
#if defined(__AVX512F__)
    return Vector<float>(_mm512_cvtph_ps(__m256i(neighbours(p))));
#elif defined(__F16C__)
    return Vector<float>(_mm256_cvtph_ps(__m128i(neighbours(p))));
#else
    Vector<float> v;
    for (int i = 0; i < kLanes<float>; i++) v[i] = widen(p[i]);
    return v;
#endif
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    return as<Vector<float>>(__builtin_convertvector(neighbours(p), Vector<uint32_t>) << 16);
  } else if constexpr (sizeof(S) <= 2) {
    return Vector<Word>(__builtin_convertvector(neighbours(p), Vector<int32_t>)) & 0xffff;
  } else {
    return Vector<Word>(neighbours(p));
  }
}

// The next steps of one lane, neighbours in memory.
template <class S>
ALWAYS_INLINE Vector<WordOf<S>> words_along_k(const S* p) {
  if constexpr (StepOf<S>::kDepth == 1) {
    return words(p);
  } else {
    typedef S V __attribute__((vector_size(sizeof(S) * 2 * kLanes<uint32_t>)));
    typedef int16_t Pairs __attribute__((vector_size(kVectorBytes)));
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return Vector<uint32_t>(__builtin_convertvector(v, Pairs));
  }
}

// One step of neighbouring lanes.
template <class S>
ALWAYS_INLINE Vector<WordOf<S>> words_along_lanes(const S* p, int64_t k_stride) {
  if constexpr (StepOf<S>::kDepth == 1) return words(p);
  else return words(p) | words(p + k_stride) << 16;
}

// One step of one lane, of as many elements as are left.
template <class S>
ALWAYS_INLINE WordOf<S> word(const S* p, int64_t k_stride, int64_t left) {
  if constexpr (StepOf<S>::kDepth == 1) return WordOf<S>(widen(*p));
  else return (uint32_t(*p) & 0xffff) | (left > 1 ? uint32_t(p[k_stride]) << 16 : 0);
}

// ---------------------------------------------------------------- panels

// An operand as [lanes][k], or a part of one.
template <class S>
struct Lanes {
  const S* at;
  int64_t count, stride, k_stride;
};

// The first `taken` lanes and k elements as to[steps][pitch], where pitch is `taken` or more, and a multiple of the vector
// then: what stands in lanes beyond is anything. Up to a vector behind the end is overwritten.
template <class S>
__attribute__((noinline)) void pack(Lanes<S> from, int64_t taken, int64_t k, WordOf<S>* to, int64_t pitch) {
  constexpr int W = kLanes<WordOf<S>>, kDepth = StepOf<S>::kDepth;
  const int64_t whole = k / kDepth, steps = (k + kDepth - 1) / kDepth;
  int64_t done = 0;
  if (from.stride == 1 && (taken + W - 1) / W * W <= from.count) {
    // Where a vector reaches into the next step, that step is yet to come.
    for (; done < whole; done++) {
      const S* const at = from.at + done * kDepth * from.k_stride;
      for (int64_t i = 0; i < taken; i += W) store(to + done * pitch + i, words_along_lanes(at + i, from.k_stride));
    }
  } else if (from.k_stride == 1 && whole >= W) {
    // From the last lanes to the first, for the same reason.
    for (int64_t i = (taken - 1) / W * W; i >= 0; i -= W) {
      const int64_t last = (taken < i + W ? taken : i + W) - 1;
      for (done = 0; done < whole; done += W) {
        if (done > whole - W) done = whole - W;  // the last block overlaps the one before, with the same words
        Vector<WordOf<S>> block[W];
#pragma GCC unroll 16
        for (int r = 0; r < W; r++) {
          block[r] = words_along_k(from.at + (i + r < last ? i + r : last) * from.stride + done * kDepth);
        }
        transpose<WordOf<S>>(block);
#pragma GCC unroll 16
        for (int r = 0; r < W; r++) store(to + (done + r) * pitch + i, block[r]);
      }
    }
    done = whole;
  }
  for (; done < steps; done++) {
    const int64_t element = done * kDepth;
    const S* const at = from.at + element * from.k_stride;
    for (int64_t i = 0; i < taken; i++) to[done * pitch + i] = word(at + i * from.stride, from.k_stride, k - element);
  }
}

}  // namespace
}  // namespace torch_reductions::cpu
