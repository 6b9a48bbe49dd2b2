// How the ordered kernels read and store: a source gives values out of memory, an output takes them.
#pragma once
#include "../../../common/args.h"
#include "../../primitives/warp.cuh"

namespace torch_reductions::cuda {

// What the extremes compare in: the value itself, small integers in 32 bits.
template <class T>
using Compared = Native<T>;

template <class T>
using SumOf = Sum<Accumulator<T>>;
template <class T>
using ProdOf = Prod<Accumulator<T>>;
template <class T>
using MaxOf = Max<Compared<T>>;
// 32-bit indices while the length allows it; "Long" beyond.
template <class T>
using ArgMaxOf = ArgMax<Compared<T>, uint32_t>;
template <class T>
using ArgMaxLongOf = ArgMax<Compared<T>, int64_t>;

template <class V>
struct IsIndexed : std::false_type {};
template <class A, class I>
struct IsIndexed<Indexed<A, I>> : std::true_type {};

template <class Op>
inline constexpr bool kExtreme = !std::is_same_v<Op, Sum<typename Op::Value>> && !std::is_same_v<Op, Prod<typename Op::Value>>;

// The input: elements of type T. min and argmin read their elements flipped and store them flipped back.
template <class T, class Operator>
struct Input {
  using Op = Operator;
  using Value = typename Op::Value;
  static constexpr int kBytes = sizeof(T), E = 16 / kBytes;
  bool flipped;

  // Element i of the words, which stands at `index` of its row.
  __device__ __forceinline__ Value value(const uint32_t* words, int i, [[maybe_unused]] int64_t index) const {
    const Native<T> x = element<T>(words, i);
    if constexpr (IsIndexed<Value>::value)
      return {flipped ? flip(x) : x, decltype(Value::index)(index)};
    else if constexpr (kExtreme<Op>)
      return flipped ? flip(x) : x;
    else return Value(x);
  }
};

// Totals that blocks of the same launch left behind: values of the accumulator type.
template <class Operator>
struct Totals {
  using Op = Operator;
  using Value = typename Op::Value;
  static constexpr int kBytes = sizeof(Value), E = 16 / kBytes;

  __device__ __forceinline__ Value value(const uint32_t* words, int i, int64_t) const {
    Value v;
    memcpy(&v, words + i * (kBytes / 4), kBytes);
    return v;
  }
};

template <class S>
inline constexpr int kLogE = log2_of(S::E);

// One element, or `none` where not valid.
template <class S>
__device__ __forceinline__ typename S::Value load_one(const S& source, const char* p, int64_t index, uint64_t policy) {
  uint32_t words[(S::kBytes + 3) / 4];
  load_words<S::kBytes>(words, p, policy);
  return source.value(words, 0, index);
}

// Where the results go: contiguous, of any dtype that the function allows. divisor: the length for a mean, else 0.
struct Output {
  void* data;
  Dtype dtype;
  bool flipped;
  int64_t divisor;

  __device__ __forceinline__ void store_float(int64_t i, float x) const {
    if (dtype == Dtype::float32) static_cast<float*>(data)[i] = x;
    else if (dtype == Dtype::bfloat16) static_cast<uint16_t*>(data)[i] = bfloat16_bits(__float_as_uint(x));
    else static_cast<uint16_t*>(data)[i] = float_to_half(x);
  }
  __device__ __forceinline__ void store_integer(int64_t i, int64_t x) const {
    switch (dtype) {
      case Dtype::int64: static_cast<int64_t*>(data)[i] = x; break;
      case Dtype::int32: static_cast<int32_t*>(data)[i] = int32_t(x); break;
      case Dtype::int16: static_cast<int16_t*>(data)[i] = int16_t(x); break;
      case Dtype::boolean: static_cast<uint8_t*>(data)[i] = x != 0; break;
      default: static_cast<uint8_t*>(data)[i] = uint8_t(x);
    }
  }
  template <class Op>
  __device__ __forceinline__ void store(int64_t i, typename Op::Value v) const {
    using Value = typename Op::Value;
    if constexpr (IsIndexed<Value>::value) {
      static_cast<int64_t*>(data)[i] = int64_t(v.index);
    } else {
      if constexpr (kExtreme<Op>) v = flipped ? flip(v) : v;
      if constexpr (std::is_integral_v<Value>) {
        store_integer(i, v);
      } else {
        if (divisor != 0) v = v / Value(divisor);
        if constexpr (std::is_same_v<Value, double>) static_cast<double*>(data)[i] = v;
        else store_float(i, v);
      }
    }
  }
};

}  // namespace torch_reductions::cuda
