// The elements of one vector of 16 bytes. Small types are folded packed where no order can be told from the result.
#pragma once
#include "../../primitives/packed.cuh"
#include "output.cuh"

namespace torch_reductions::cuda::reduce {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// The balanced tree over a vector, whose first element stands at `index`.
template <class S>
__device__ __forceinline__ typename S::Value vector_tree(const S& source, const uint32_t (&words)[4], int64_t index) {
  using T = typename S::Element;
  using Op = typename S::Op;
  using Value = typename Op::Value;
  [[maybe_unused]] const auto exact = [&] {
    Value x[S::E];
#pragma unroll
    for (int i = 0; i < S::E; i++) x[i] = source.value(words, i, index + i);
    return tree<Op, S::E>(x);
  };
  if constexpr (std::is_same_v<Op, Sum<int64_t>> && S::kBytes < 4) {
    // A signed byte is the unsigned one with its sign flipped, less 128.
    const uint32_t sign = S::kBytes == 1 && !kIsBool<T> ? unsigned(source.sign) * 0x01010101u : 0;
    int sum = S::kBytes == 1 && !kIsBool<T> ? -16 * source.sign : 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t w = words[i];
      if constexpr (kIsBool<T>) sum += __popc((((w & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w) & 0x80808080u);  // bytes not 0
      else sum = add_parts<S::kBytes>(w ^ sign, sum);
    }
    return sum;
  } else if constexpr (kComparesPairs && kIsHalf<T> && (IsIndexed<Value>::value || std::is_same_v<Op, Max<float>>)) {
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = words[i] ^ (source.flip | source.flip >> 16);
    const uint32_t left = larger_pair<T>(w[0], w[1]), right = larger_pair<T>(w[2], w[3]),
                   both = larger_pair<T>(left, right);
    const float even = element<T>(&both, 0), odd = element<T>(&both, 1);
    if constexpr (IsIndexed<Value>::value) {
      if (is_nan(even) || is_nan(odd)) return exact();
      const uint32_t in_left = greater_pair<T>(w[1], w[0]) & 0x00020002u,
                     in_right = (greater_pair<T>(w[3], w[2]) & 0x00020002u) | 0x00040004u,
                     is_right = greater_pair<T>(right, left), at = (in_right & is_right) | (in_left & ~is_right);
      const unsigned even_at = at & 0xffffu, odd_at = (at >> 16) + 1;
      const bool take_odd = odd > even || (odd == even && odd_at < even_at);
      return {take_odd ? odd : even, decltype(Value::index)(index) + (take_odd ? odd_at : even_at)};
    } else {
      const float largest = Op::combine(even, odd);
      return largest != 0 ? largest : exact();  // of zeros of both signs the first one counts
    }
  } else {
    return exact();
  }
}

// v[e], the balanced tree over R rows of column e: words[i] are the elements of V neighbouring columns in row i, which
// stands at `index` + i.
template <int R, int V, class S, class Result>
__device__ __forceinline__ void column_trees(const S& source, Result (&v)[V],
                                             const uint32_t (&words)[R][(V * S::kBytes + 3) / 4], int64_t index) {
  using T = typename S::Element;
  using Op = typename S::Op;
  using Value = typename Op::Value;
  [[maybe_unused]] const auto exact = [&](int e) {
    Value x[R];
#pragma unroll
    for (int i = 0; i < R; i++) x[i] = source.value(words[i], e, index + i);
    v[e] = tree<Op, R>(x);
  };
  constexpr int Words = V * S::kBytes / 4;  // 0: less than one
  if constexpr (std::is_same_v<Op, Sum<int64_t>> && S::kBytes == 1 && !kIsBool<T> && Words > 0 && R > 1 && R <= 256) {
    const uint32_t sign = unsigned(source.sign) * 0x01010101u;
#pragma unroll
    for (int w = 0; w < Words; w++) {
      uint32_t even = 0, odd = 0;  // sums of 16 bits
#pragma unroll
      for (int i = 0; i < R; i++) {
        even += (words[i][w] ^ sign) & 0x00ff00ffu;
        odd += ((words[i][w] ^ sign) >> 8) & 0x00ff00ffu;
      }
      v[4 * w] = int(even & 0xffff) - R * source.sign, v[4 * w + 1] = int(odd & 0xffff) - R * source.sign;
      v[4 * w + 2] = int(even >> 16) - R * source.sign, v[4 * w + 3] = int(odd >> 16) - R * source.sign;
    }
  } else if constexpr (std::is_same_v<Op, Sum<int64_t>> && S::kBytes < 4 && R > 1) {
#pragma unroll
    for (int e = 0; e < V; e++) {
      int sum = 0;
#pragma unroll
      for (int i = 0; i < R; i++) sum += int(source.value(words[i], e, 0));
      v[e] = sum;
    }
  } else if constexpr (kComparesPairs && kIsHalf<T> && Words > 0 && R > 1 &&
                       (IsIndexed<Value>::value || std::is_same_v<Op, Max<float>>)) {
    const uint32_t flip = source.flip | source.flip >> 16;
#pragma unroll
    for (int w = 0; w < Words; w++) {
      uint32_t largest = words[0][w] ^ flip, at = 0;
#pragma unroll
      for (int i = 1; i < R; i++) {
        const uint32_t next = words[i][w] ^ flip;
        if constexpr (IsIndexed<Value>::value) {
          const uint32_t greater = greater_pair<T>(next, largest);
          at = (greater & unsigned(i) * 0x00010001u) | (at & ~greater);
        }
        largest = larger_pair<T>(largest, next);
      }
      const float even = element<T>(&largest, 0), odd = element<T>(&largest, 1);
      if constexpr (IsIndexed<Value>::value) {
        v[2 * w] = {even, decltype(Value::index)(index) + (at & 0xffff)};
        v[2 * w + 1] = {odd, decltype(Value::index)(index) + (at >> 16)};
        if (is_nan(even)) exact(2 * w);
        if (is_nan(odd)) exact(2 * w + 1);
      } else {
        v[2 * w] = even, v[2 * w + 1] = odd;
        if (even == 0) exact(2 * w);  // of zeros of both signs the first one counts
        if (odd == 0) exact(2 * w + 1);
      }
    }
  } else {
#pragma unroll
    for (int e = 0; e < V; e++) exact(e);
  }
}

}  // namespace torch_reductions::cuda::reduce
