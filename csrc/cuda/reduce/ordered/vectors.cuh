// Balanced trees over loaded words: over the elements of a vector, or over rows of neighbouring columns. Where the
// order does not show in the result they are not unpacked: sums of small integers, and extremes, except for what NaN
// and zeros of both signs depend on, which is rare.
#pragma once
#include "../../primitives/packed.cuh"
#include "output.cuh"

namespace torch_reductions::cuda::reduce {

template <class S>
inline constexpr bool kHalves =
    std::is_same_v<typename S::Element, Half> || std::is_same_v<typename S::Element, BFloat16>;
template <class S>
inline constexpr bool kArg = IsIndexed<typename S::Value>::value;
template <class S>
inline constexpr bool kSmallSum = std::is_same_v<typename S::Op, Sum<int64_t>> && S::kBytes < 4;
// Extremes of values that are compared as floats, and of bytes.
template <class S>
inline constexpr bool kFloatExtreme =
    kComparesPairs && (kArg<S> || kExtreme<typename S::Op>) && std::is_same_v<Native<typename S::Element>, float>;
template <class S>
inline constexpr bool kByteExtreme = kComparesPairs && (kArg<S> || kExtreme<typename S::Op>) && S::kBytes == 1;

template <class S>
__device__ __forceinline__ typename S::Value extreme(Native<typename S::Element> value,
                                                     [[maybe_unused]] int64_t index) {
  if constexpr (kArg<S>) return {value, decltype(S::Value::index)(index)};
  else return value;
}

// Bytes as unsigned 16-bit keys: the larger value has the larger key, and of equal ones that of the smaller number.
template <class S>
struct ByteKeys {
  const S& source;
  // Of elements 0 and 2, or (odd) 1 and 3, whose numbers are `at` and `at` + 2; below 256.
  __device__ __forceinline__ uint32_t keys(uint32_t word, bool odd, int at, int step) const {
    const uint32_t numbers = 0xffffu - uint32_t(at) - (uint32_t(at + step) << 8);
    return __byte_perm(word ^ (unsigned(source.sign) ^ (source.flip & 0xff)) * 0x01010101u, numbers,
                       odd ? 0x3514 : 0x2504);
  }
  // Of one half of the keys.
  __device__ __forceinline__ typename S::Value value(uint32_t key, int64_t index) const {
    const int value = int(key >> 8 & 0xff) - (source.flip ? 256 - source.sign : source.sign);
    return extreme<S>(value, index + int(255 - (key & 0xff)));
  }
};

// The balanced tree over a vector, whose first element stands at `index`.
template <class S>
__device__ __forceinline__ typename S::Value vector_tree(const S& source, const uint32_t (&words)[4], int64_t index) {
  using T = typename S::Element;
  using Op = typename S::Op;
  [[maybe_unused]] const auto exact = [&] {
    typename S::Value x[S::E];
#pragma unroll
    for (int i = 0; i < S::E; i++) x[i] = source.value(words, i, index + i);
    return tree<Op, S::E>(x);
  };
  if constexpr (kSmallSum<S>) {
    // A signed byte is the unsigned one with its sign flipped, less 128.
    const int sign = S::kBytes == 1 && !kIsBool<T> ? source.sign : 0;
    int sum = -16 * sign;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t w = words[i];
      if constexpr (kIsBool<T>) sum += __popc((((w & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w) & 0x80808080u);  // bytes not 0
      else sum = add_parts<S::kBytes>(w ^ unsigned(sign) * 0x01010101u, sum);
    }
    return sum;
  } else if constexpr (kByteExtreme<S>) {
    const ByteKeys<S> bytes{source};
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
      largest = larger_integers(
          largest, larger_integers(bytes.keys(words[i], false, 4 * i, 2), bytes.keys(words[i], true, 4 * i + 1, 2)));
    return bytes.value(largest >> 16 > (largest & 0xffff) ? largest >> 16 : largest, index);
  } else if constexpr (kFloatExtreme<S> && kHalves<S>) {
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = words[i] ^ (source.flip | source.flip >> 16);
    const uint32_t left = larger_pair<T>(w[0], w[1]), right = larger_pair<T>(w[2], w[3]),
                   both = larger_pair<T>(left, right);
    const float even = element<T>(&both, 0), odd = element<T>(&both, 1), largest = larger(even, odd);
    if constexpr (kArg<S>) {
      if (is_nan(largest)) return exact();
      const uint32_t in_left = greater_pair<T>(w[1], w[0]) & 0x00020002u,
                     in_right = (greater_pair<T>(w[3], w[2]) & 0x00020002u) | 0x00040004u,
                     is_right = greater_pair<T>(right, left), at = (in_right & is_right) | (in_left & ~is_right);
      const unsigned even_at = at & 0xffffu, odd_at = (at >> 16) + 1;
      return extreme<S>(largest, index + (odd > even || (odd == even && odd_at < even_at) ? odd_at : even_at));
    } else {
      return largest != 0 ? largest : exact();  // of zeros of both signs the first one counts
    }
  } else {
    return exact();
  }
}

// v[e], the balanced tree over R <= 256 rows of column e: words[i] are the elements of V neighbouring columns in row i,
// which stands at `index` + i.
template <int R, int V, class S, int W>
__device__ __forceinline__ void column_trees(const S& source, typename S::Value (&v)[V], const uint32_t (&words)[R][W],
                                             int64_t index) {
  using T = typename S::Element;
  using Op = typename S::Op;
  constexpr int Words = V * S::kBytes / 4;  // 0: less than one
  [[maybe_unused]] const auto exact = [&](int e) {
    typename S::Value x[R];
#pragma unroll
    for (int i = 0; i < R; i++) x[i] = source.value(words[i], e, index + i);
    v[e] = tree<Op, R>(x);
  };
  if constexpr (kSmallSum<S> && S::kBytes == 1 && !kIsBool<T> && Words > 0) {
    const uint32_t sign = unsigned(source.sign) * 0x01010101u;
#pragma unroll
    for (int w = 0; w < Words; w++) {
      uint32_t even = 0, odd = 0;  // sums of 16 bits
#pragma unroll
      for (int i = 0; i < R; i++) {
        even += (words[i][w] ^ sign) & 0x00ff00ffu;
        odd += ((words[i][w] ^ sign) >> 8) & 0x00ff00ffu;
      }
      const auto signed_sum = [&](uint32_t sum) { return int(sum & 0xffff) - R * source.sign; };
      v[4 * w] = signed_sum(even), v[4 * w + 1] = signed_sum(odd);
      v[4 * w + 2] = signed_sum(even >> 16), v[4 * w + 3] = signed_sum(odd >> 16);
    }
  } else if constexpr (kSmallSum<S>) {
#pragma unroll
    for (int e = 0; e < V; e++) {
      int sum = 0;
#pragma unroll
      for (int i = 0; i < R; i++) sum += int(source.value(words[i], e, 0));
      v[e] = sum;
    }
  } else if constexpr (kByteExtreme<S> && Words > 0) {
    const ByteKeys<S> bytes{source};
#pragma unroll
    for (int w = 0; w < Words; w++) {
      uint32_t even = 0, odd = 0;
#pragma unroll
      for (int i = 0; i < R; i++) {
        even = larger_integers(even, bytes.keys(words[i][w], false, i, 0));
        odd = larger_integers(odd, bytes.keys(words[i][w], true, i, 0));
      }
      v[4 * w] = bytes.value(even, index), v[4 * w + 1] = bytes.value(odd, index);
      v[4 * w + 2] = bytes.value(even >> 16, index), v[4 * w + 3] = bytes.value(odd >> 16, index);
    }
  } else if constexpr (kFloatExtreme<S> && R > 1) {
    constexpr int Parts = kHalves<S> && Words > 0 ? 2 : 1;  // that are compared at once
#pragma unroll
    for (int w = 0; w < V / Parts; w++) {
      uint32_t at = 0;
      float largest[Parts];
      if constexpr (Parts == 2) {
        const uint32_t flip = source.flip | source.flip >> 16;
        uint32_t pair = words[0][w] ^ flip;
#pragma unroll
        for (int i = 1; i < R; i++) {
          const uint32_t next = words[i][w] ^ flip;
          if constexpr (kArg<S>) {
            const uint32_t greater = greater_pair<T>(next, pair);
            at = (greater & unsigned(i) * 0x00010001u) | (at & ~greater);
          }
          pair = larger_pair<T>(pair, next);
        }
        largest[0] = element<T>(&pair, 0), largest[1] = element<T>(&pair, 1);
      } else {
        largest[0] = flip_by(source.flip, element<T>(words[0], w));
#pragma unroll
        for (int i = 1; i < R; i++) {
          const float next = flip_by(source.flip, element<T>(words[i], w));
          if (kArg<S> && next > largest[0]) at = i;
          largest[0] = larger(largest[0], next);
        }
      }
#pragma unroll
      for (int k = 0; k < Parts; k++) {
        v[w * Parts + k] = extreme<S>(largest[k], index + (at >> 16 * k & 0xffff));
        // The first NaN's index; the sign of the first zero.
        if (kArg<S> ? is_nan(largest[k]) : largest[k] == 0) exact(w * Parts + k);
      }
    }
  } else {
#pragma unroll
    for (int e = 0; e < V; e++) exact(e);
  }
}

}  // namespace torch_reductions::cuda::reduce
