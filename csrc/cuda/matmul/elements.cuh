// What every product of matrices does with single elements: one step of a chain, and the way out to storage.
#pragma once
#include "../../common/args.h"
#include "../primitives/memory.cuh"
#include "../primitives/thread.cuh"

namespace torch_reductions::cuda {

// a b + c with one rounding, or wrapping.
__device__ __forceinline__ float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ __forceinline__ uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }
__device__ __forceinline__ uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c) { return a * b + c; }

// An element as a factor of a product.
template <class T>
__device__ __forceinline__ ProductOf<T> factor(T x) {
  if constexpr (std::is_same_v<T, BFloat16>) return __uint_as_float(uint32_t(x.bits) << 16);
  else if constexpr (std::is_same_v<T, Half>) return half_to_float(x.bits);
  else return ProductOf<T>(x);
}

// Rounded to storage, once.
template <class Out, class A>
__device__ __forceinline__ Out rounded(A value) {
  if constexpr (std::is_same_v<Out, BFloat16>) return {bfloat16_bits(__float_as_uint(value))};
  else if constexpr (std::is_same_v<Out, Half>) return {float_to_half(value)};
  else return Out(value);
}

template <class T>
__device__ __forceinline__ const T* element_of(const Matrix& matrix, int64_t batch, int64_t i, int64_t j) {
  return static_cast<const T*>(matrix.data) + batch * matrix.batch_stride + i * matrix.row_stride +
         j * matrix.column_stride;
}

// alpha value + beta added, rounded to storage; MatmulArgs says where.
template <class Out, class A>
__device__ __forceinline__ Out product_of(const MatmulArgs& args, int64_t batch, int64_t i, int64_t j, A value) {
  if constexpr (std::is_floating_point_v<A>) {
    if (args.alpha != 1) value = A(args.alpha) * value;
  }
  if (args.added.data != nullptr) {
    A other = factor(*element_of<Out>(args.added, batch, i, j));
    if constexpr (std::is_floating_point_v<A>) {
      if (args.beta != 1) other = A(args.beta) * other;
    }
    value += other;
  }
  return rounded<Out>(value);
}

template <class Out, class A>
__device__ __forceinline__ void store_product(const MatmulArgs& args, int64_t batch, int64_t i, int64_t j, A value) {
  static_cast<Out*>(args.output)[(batch * args.m + i) * args.n + j] = product_of<Out>(args, batch, i, j, value);
}

}  // namespace torch_reductions::cuda
