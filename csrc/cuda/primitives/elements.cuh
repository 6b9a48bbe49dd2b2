// How the ordered kernels read: a source loads values of an operator from memory.
#pragma once
#include "../../common/args.h"
#include "warp.cuh"

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

// body(std::type_identity<T>()) with the type that the kernels of dtype are compiled for.
template <class Body>
void with_kernel_type(Dtype dtype, Body&& body) {
  if (dtype == Dtype::int8) body(std::type_identity<uint8_t>());
  else
    with_storage(dtype, [&]<class T>(std::type_identity<T>) {
      if constexpr (!std::is_same_v<T, int8_t>) body(std::type_identity<T>());
    });
}

// The same where a bool counts as 0 or 1, not as its byte.
template <class Body>
void with_summand_type(Dtype dtype, Body&& body) {
  if (dtype == Dtype::boolean) body(std::type_identity<Bool>());
  else with_kernel_type(dtype, body);
}

template <class Op, template <class> class... Others>
inline constexpr bool kIsNone = !(std::is_same_v<Op, Others<typename Op::Value>> || ...);
template <class Op>
inline constexpr bool kExtreme = kIsNone<Op, Sum, Prod, LogAdd>;
// Does a combination take far longer than a branch?
template <class Op>
inline constexpr bool kIsDear = !kIsNone<Op, LogAdd>;

// flip() by an exclusive or with these bits, of the value or of its upper half: a branch would keep the compiler from
// issuing the next loads early.
template <class A>
inline constexpr uint32_t kFlip = std::is_floating_point_v<A> ? 0x80000000u : 0xffffffffu;

__device__ __forceinline__ float flip_by(uint32_t bits, float x) { return __uint_as_float(__float_as_uint(x) ^ bits); }
__device__ __forceinline__ int32_t flip_by(uint32_t bits, int32_t x) { return x ^ int32_t(bits); }
__device__ __forceinline__ int64_t flip_by(uint32_t bits, int64_t x) { return x ^ int64_t(int32_t(bits)); }
__device__ __forceinline__ double flip_by(uint32_t bits, double x) {
  return __hiloint2double(__double2hiint(x) ^ int(bits), __double2loint(x));
}

// The input: elements of type T. min and argmin read their elements flipped and store them flipped back. Groups: the
// vectors that a thread loads at once (reduce/ordered/rows.cuh).
template <class T, class Operator, int Groups = 4>
struct Input {
  static constexpr int kGroups = Groups;
  using Element = T;
  using Op = Operator;
  using Value = typename Op::Value;
  static constexpr int kBytes = sizeof(T), E = 16 / kBytes;
  uint32_t flip;  // kFlip or 0
  int sign;       // of bytes: 128 where they are signed, else 0 (one kernel serves both)

  // Element i of the words, which stands at `index` of its row.
  __device__ __forceinline__ Value value(const uint32_t* words, int i, [[maybe_unused]] int64_t index) const {
    if constexpr (IsPair<T>::value) {
      using OfOne = decltype(T::first);
      return {element<OfOne>(words, 2 * i), element<OfOne>(words, 2 * i + 1)};
    } else {
      Native<T> x = element<T>(words, i);
      if constexpr (kBytes == 1 && !kIsBool<T>) x = (x ^ sign) - sign;
      if constexpr (IsIndexed<Value>::value) return {flip_by(flip, x), decltype(Value::index)(index)};
      else if constexpr (kExtreme<Op>) return flip_by(flip, x);
      else return Value(x);
    }
  }
};

template <class S>
inline constexpr int kLogE = log2_of(S::E);

// Strides of elements of `size` bytes, in bytes.
inline Strides in_bytes(const Strides& s, int64_t size) { return {s.outer * size, s.length * size, s.inner * size}; }

// The element at p, as a register holds it.
template <class T>
__device__ __forceinline__ Native<T> load_native(const char* p) {
  uint32_t words[(sizeof(T) + 3) / 4];
  load_words<sizeof(T)>(words, p);
  return element<T>(words, 0);
}

// The element at p, which stands at `index` of its row.
template <class S>
__device__ __forceinline__ typename S::Value load_one(const S& source, const char* p, int64_t index) {
  uint32_t words[(S::kBytes + 3) / 4];
  load_words<S::kBytes>(words, p);
  return source.value(words, 0, index);
}

}  // namespace torch_reductions::cuda
