// What every rung does with single elements: one sum, and where an element of the result lies in the operands.
#pragma once
#include "../../common/args.h"
#include "../primitives/arithmetic.cuh"
#include "../primitives/fast_div.cuh"

namespace torch_reductions::cuda::add {

// a + alpha b with one rounding, or wrapping.
__device__ __forceinline__ float sum_of(float a, float alpha, float b) { return multiply_add(alpha, b, a); }
__device__ __forceinline__ double sum_of(double a, double alpha, double b) { return multiply_add(alpha, b, a); }
template <class A>
__device__ __forceinline__ A sum_of(A a, A alpha, A b) {
  using Wide =
      std::conditional_t<sizeof(A) == 8, uint64_t, uint32_t>;  // otherwise short factors would be multiplied as int
  return A(Wide(a) + Wide(alpha) * Wide(b));
}

// alpha, and the sum of two elements of storage in storage.
template <class T>
struct Adder {
  using A = AddType<T>;
  A alpha;
  bool either;  // of bool, whose sum is an or: any byte of an operand except 0 is true

  explicit Adder(const AddArgs& args) : either(args.dtype == Dtype::boolean) {
    if constexpr (std::is_floating_point_v<A>) alpha = A(args.alpha);
    else alpha = A(int64_t(args.alpha));
  }

  __device__ __forceinline__ T operator()(T a, T b) const {
    const A sum = sum_of(A(factor(a)), alpha, A(factor(b)));
    if constexpr (sizeof(T) == 1) return either ? T((a | (b & T(-alpha))) != 0) : T(sum);  // alpha is 0 or 1
    else return rounded<T>(sum);
  }

  // Of four bytes at once. Products of every other byte leave each other room; the highest bits of sums are added
  // without a carry, so that none reaches the next byte.
  __device__ __forceinline__ uint32_t of_bytes(uint32_t a, uint32_t b) const {
    constexpr uint32_t kEven = 0x00ff00ff, kHighest = 0x80808080;
    b = ((b & kEven) * uint32_t(alpha) & kEven) | ((b >> 8 & kEven) * uint32_t(alpha) & kEven) << 8;
    if (either) return ((((a | b) & ~kHighest) + ~kHighest) | a | b) >> 7 & ~kHighest / 0x7f;
    return ((a & ~kHighest) + (b & ~kHighest)) ^ ((a ^ b) & kHighest);
  }
};

// The offsets of an element in the operands.
struct Offsets {
  int64_t input, other;
};

// Those of element i of the result, by one division per dim.
__device__ __forceinline__ Offsets offsets_of(const AddArgs& args, int64_t i) {
  Offsets at{0, 0};
  for (int d = 0; d < args.dims - 1; d++) {
    const int64_t above = i / args.sizes[d], here = i - above * args.sizes[d];
    at.input += here * args.input_strides[d], at.other += here * args.other_strides[d];
    i = above;
  }
  return {at.input + i * args.input_strides[args.dims - 1], at.other + i * args.other_strides[args.dims - 1]};
}

template <class T>
__device__ __forceinline__ void add_element(const AddArgs& args, const Adder<T>& add, int64_t i) {
  const Offsets at = offsets_of(args, i);
  const T a = static_cast<const T*>(args.input)[at.input];
  static_cast<T*>(args.output)[i] = add(a, static_cast<const T*>(args.other)[at.other]);
}

// body(std::type_identity<T>()) with the textbook's types.
template <class Body>
void with_textbook_types(Dtype dtype, Body&& body) {
  if (dtype == Dtype::float32) body(std::type_identity<float>());
  else if (dtype == Dtype::float64) body(std::type_identity<double>());
  else if (dtype == Dtype::int32) body(std::type_identity<uint32_t>());
  else body(std::type_identity<uint64_t>());
}

}  // namespace torch_reductions::cuda::add
