// How the ordered kernels read and store: a source gives values out of memory, an output takes them.
#pragma once
#include "../../../common/args.h"
#include "../../primitives/warp.cuh"

namespace torch_reductions::cuda {

template <class T>
using SumOf = Sum<Accumulator<T>>;
template <class T>
using ProdOf = Prod<Accumulator<T>>;
template <class T>
using MaxOf = Max<Native<T>>;
// 32-bit indices while the length allows it; "Long" beyond.
template <class T>
using ArgMaxOf = ArgMax<Native<T>, uint32_t>;
template <class T>
using ArgMaxLongOf = ArgMax<Native<T>, int64_t>;

template <class V>
struct IsIndexed : std::false_type {};
template <class A, class I>
struct IsIndexed<Indexed<A, I>> : std::true_type {};

// body(Tag<T>()) with the type that the kernels of dtype are compiled for.
template <class Body>
void with_kernel_type(Dtype dtype, Body&& body) {
  if (dtype == Dtype::int8) body(Tag<uint8_t>());
  else
    with_storage(dtype, [&]<class T>(Tag<T>) {
      if constexpr (!std::is_same_v<T, int8_t>) body(Tag<T>());
    });
}

template <class Op>
inline constexpr bool kExtreme =
    !std::is_same_v<Op, Sum<typename Op::Value>> && !std::is_same_v<Op, Prod<typename Op::Value>>;

// flip() by an exclusive or with these bits, of the value or of its upper half: a branch would keep the compiler from
// asking for the next elements early.
template <class A>
inline constexpr uint32_t kFlip = std::is_floating_point_v<A> ? 0x80000000u : 0xffffffffu;

__device__ __forceinline__ float flip_by(uint32_t bits, float x) { return __uint_as_float(__float_as_uint(x) ^ bits); }
__device__ __forceinline__ int32_t flip_by(uint32_t bits, int32_t x) { return x ^ int32_t(bits); }
__device__ __forceinline__ int64_t flip_by(uint32_t bits, int64_t x) { return x ^ int64_t(int32_t(bits)); }
__device__ __forceinline__ double flip_by(uint32_t bits, double x) {
  return __hiloint2double(__double2hiint(x) ^ int(bits), __double2loint(x));
}

// The input: elements of type T. min and argmin read their elements flipped and store them flipped back. Groups: the
// vectors that a thread loads at once (rows.cuh).
template <class T, class Operator, int Groups = 4>
struct Input {
  static constexpr int kGroups = Groups;
  using Op = Operator;
  using Value = typename Op::Value;
  static constexpr int kBytes = sizeof(T), E = 16 / kBytes;
  uint32_t flip;  // kFlip or 0
  int sign;       // of bytes: 128 where they are signed, else 0 (one kernel serves both)

  // Element i of the words, which stands at `index` of its row.
  __device__ __forceinline__ Value value(const uint32_t* words, int i, [[maybe_unused]] int64_t index) const {
    Native<T> x = element<T>(words, i);
    if constexpr (kBytes == 1) x = (x ^ sign) - sign;
    if constexpr (IsIndexed<Value>::value) return {flip_by(flip, x), decltype(Value::index)(index)};
    else if constexpr (kExtreme<Op>) return flip_by(flip, x);
    else return Value(x);
  }
};

template <class S>
inline constexpr int kLogE = log2_of(S::E);

// The element at p, which stands at `index` of its row.
template <class S>
__device__ __forceinline__ typename S::Value load_one(const S& source, const char* p, int64_t index) {
  uint32_t words[(S::kBytes + 3) / 4];
  load_words<S::kBytes>(words, p);
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
  // Flipped back, and divided for a mean.
  template <class Op>
  __device__ __forceinline__ typename Op::Value finish(typename Op::Value v) const {
    if constexpr (kExtreme<Op>) return flipped ? flip(v) : v;
    else if constexpr (std::is_floating_point_v<typename Op::Value> && std::is_same_v<Op, Sum<typename Op::Value>>)
      return divisor != 0 ? v / typename Op::Value(divisor) : v;
    else return v;
  }
  template <class Op>
  __device__ __forceinline__ void store(int64_t i, typename Op::Value v) const {
    using Value = typename Op::Value;
    if constexpr (IsIndexed<Value>::value) static_cast<int64_t*>(data)[i] = int64_t(v.index);
    else if constexpr (std::is_integral_v<Value>) store_integer(i, finish<Op>(v));
    else if constexpr (std::is_same_v<Value, double>) static_cast<double*>(data)[i] = finish<Op>(v);
    else store_float(i, finish<Op>(v));
  }

  // The first n <= N of v, from i on; n is a power of two and divides i.
  template <class Op, int N>
  __device__ __forceinline__ void store_many(int64_t i, const typename Op::Value* v, int n) const {
    if constexpr (std::is_same_v<typename Op::Value, float> && N == 2) {
      if (n == 2 && dtype == Dtype::float32) {
        static_cast<float2*>(data)[i / 2] = make_float2(finish<Op>(v[0]), finish<Op>(v[1]));
        return;
      }
    }
#pragma unroll
    for (int k = 0; k < N; k++)
      if (k < n) store<Op>(i + k, v[k]);
  }
};

}  // namespace torch_reductions::cuda
