// Where elements and results stand, and how results are stored.
#pragma once
#include "../../../common/mask.h"
#include "../../primitives/elements.cuh"

namespace torch_reductions::cuda::scan {

// Lines [outer, inner], of `length` elements and `results` results each. Positions are counted in the order of the
// scan.
struct Lines {
  const char* input;
  char* output;
  int64_t* indices;
  int64_t length, results, inner;
  int64_t outer_bytes, length_bytes, inner_bytes;  // steps of the input
  bool exclusive, reverse;
  Mask mask;
  const uint8_t* mask_end;
  // As in ScanArgs: of Op::Value, of extremes as elements. Null in a scan that begins here.
  const void* before;
  const int64_t* before_indices;
  void* totals;
  int64_t front;

  __device__ __forceinline__ int64_t element(int64_t position) const {
    return reverse ? length - 1 - position : position;
  }
  __device__ __forceinline__ int64_t result(int64_t position) const {
    return reverse ? results - 1 - position : position;
  }
};

// Elements whose results are of the wider type that they are scanned in.
template <class T, class Operator>
struct Widened : Input<T, Operator> {
  using Result = typename Operator::Value;
  static constexpr int E = 16 / sizeof(Result);  // results in a vector
};
template <class S>
inline constexpr bool kWidens = requires { typename S::Result; };
template <class S>
struct ResultOf : std::type_identity<typename S::Element> {};
template <class T, class Op>
struct ResultOf<Widened<T, Op>> : std::type_identity<typename Op::Value> {};

template <class T>
__device__ __forceinline__ Pair<T> narrowed_pair(float first, float second) {
  if constexpr (std::is_same_v<T, float>) return {first, second};
  else {
    const uint32_t word = std::is_same_v<T, BFloat16> ? bfloat16_pair(first, second) : half_pair(first, second);
    Pair<T> pair;
    memcpy(&pair, &word, 4);
    return pair;
  }
}

template <class T, class A>
__device__ __forceinline__ T narrowed(A x) {
  if constexpr (std::is_same_v<T, Half>) return {float_to_half(x)};
  else if constexpr (std::is_same_v<T, BFloat16>) return {uint16_t(bfloat16_pair(x, 0))};
  else if constexpr (IsPair<T>::value) return narrowed_pair<decltype(T::first)>(x.first, x.second);
  else return T(x);
}

// Fold(0), the empty value, as it is stored: an empty sum is +0, while the identity is -0; the empty extreme of small
// integers is the least or the greatest value of their own type.
template <class T, class Op, int G>
__device__ __forceinline__ typename Op::Value empty_value(const Input<T, Op, G>& source) {
  if constexpr (std::is_same_v<Op, Sum<typename Op::Value>>) return typename Op::Value{};
  else if constexpr (IsIndexed<typename Op::Value>::value && sizeof(T) < 4 && std::is_integral_v<T>) {
    const bool is_signed = sizeof(T) > 1 || source.sign != 0;
    const int32_t half = 1 << (8 * sizeof(T) - 1), least = is_signed ? -half : 0, most = least + 2 * half - 1;
    return {flip_by(source.flip, source.flip != 0 ? most : least), Op::identity().index};
  } else return Op::identity();
}

// The first n of Most elements, `next` bytes from one to the next, the first of which stands at `index`; `from` goes on
// to the one behind them all. Every load is on its way before the first element is converted: one after the other they
// shared registers, and waited for one another.
template <class S, int Most>
__device__ __forceinline__ void load_elements(const S& source, typename S::Value (&x)[Most], const char*& from,
                                              int64_t next, int n, int index) {
  uint32_t words[Most][(S::kBytes + 3) / 4] = {};
#pragma unroll
  for (int i = 0; i < Most; i++, from = opaque(from + next))
    if (i < n) load_words<S::kBytes>(words[i], from);
#pragma unroll
  for (int i = 0; i < Most; i++) x[i] = source.value(words[i], 0, index + i);
}

// What came before line `line`. Of extremes at index -1: it comes before every element.
template <class S>
__device__ __forceinline__ typename S::Value value_before(const S& source, const Lines& lines, int64_t line) {
  using Value = typename S::Value;
  if constexpr (IsIndexed<Value>::value)
    return load_one(source, static_cast<const char*>(lines.before) + line * S::kBytes, -1);
  else return static_cast<const Value*>(lines.before)[line];
}

// Does the call ask for the total of each line? Never of extremes.
template <class Value>
__device__ __forceinline__ bool gives_totals(const Lines& lines) {
  return !IsIndexed<Value>::value && lines.totals != nullptr;
}

// A value as an element of type T: flipped back, if it was flipped when it was read. The identity is no value of a
// small integer type.
template <class T, class Op, int G>
__device__ __forceinline__ T stored(const Input<T, Op, G>& source, typename Op::Value v) {
  if constexpr (IsIndexed<typename Op::Value>::value && sizeof(T) < 4 && std::is_integral_v<T>)
    return narrowed<T>(flip_by(source.flip, v.value == Op::identity().value ? empty_value(source).value : v.value));
  else if constexpr (IsIndexed<typename Op::Value>::value) return narrowed<T>(flip_by(source.flip, v.value));
  else return narrowed<T>(v);
}

// A value as a result.
template <class S>
__device__ __forceinline__ typename ResultOf<S>::type result_of(const S& source, typename S::Value v) {
  if constexpr (kWidens<S>) return v;
  else return stored(source, v);
}

// The words of a vector of values, as elements of type T.
template <class T, class Op, int G>
__device__ __forceinline__ void pack(uint32_t (&words)[4], const Input<T, Op, G>& source,
                                     const typename Op::Value (&v)[16 / sizeof(T)]) {
  if constexpr (std::is_same_v<T, BFloat16> && !IsIndexed<typename Op::Value>::value) {
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = bfloat16_pair(v[2 * i], v[2 * i + 1]);
  } else {
    T elements[16 / sizeof(T)];
#pragma unroll
    for (int i = 0; i < int(16 / sizeof(T)); i++) elements[i] = stored(source, v[i]);
    memcpy(words, elements, 16);
  }
}

// Reverses the elements of a vector, of Bytes each.
template <int Bytes>
__device__ __forceinline__ void mirror(uint32_t (&w)[4]) {
  const uint32_t v[4] = {w[0], w[1], w[2], w[3]};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if constexpr (Bytes == 8) w[i] = v[i ^ 2];
    else if constexpr (Bytes == 4) w[i] = v[3 - i];
    else {
      w[i] = v[3 - i] >> 16 | v[3 - i] << 16;
      if constexpr (Bytes == 1) w[i] = (w[i] >> 8 & 0x00ff00ff) | (w[i] & 0x00ff00ff) << 8;
    }
  }
}

// The position that an index of the scan stands for, counted from the front of the line; -1 stays.
template <class Index>
__device__ __forceinline__ int64_t from_the_front(const Lines& lines, Index index) {
  return index < 0 ? -1 : lines.element(int64_t(index));
}

// The index of a result that no element of its line replaced: of what came before, or -1.
__device__ __forceinline__ int64_t index_before(const Lines& lines, int64_t line) {
  return lines.before_indices == nullptr ? -1 : lines.before_indices[line];
}

// The index of a result, counted from the front; `none` of one that no element of its line replaced.
template <class Value>
__device__ __forceinline__ int64_t index_of(const Lines& lines, const Value& value, int64_t none) {
  return value.index < 0 ? none : lines.front + lines.element(int64_t(value.index));
}

}  // namespace torch_reductions::cuda::scan
