// Where the results of an ordered kernel go.
#pragma once
#include "../../primitives/elements.cuh"

namespace torch_reductions::cuda::reduce {

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

}  // namespace torch_reductions::cuda::reduce
