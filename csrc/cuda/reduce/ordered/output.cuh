// Where the elements of the results lie, and where the results go.
#pragma once
#include "../../primitives/elements.cuh"

namespace torch_reductions::cuda::reduce {

// A line is the elements of one result. Lines are numbered [outer, inner]; steps are in bytes.
struct Lines {
  const char* data;
  int64_t inner, outer_bytes, inner_bytes, length_bytes;

  __device__ __forceinline__ const char* line(int64_t i) const {
    if (inner == 1) return data + i * outer_bytes;
    const int64_t o = i / inner;
    return data + o * outer_bytes + (i - o * inner) * inner_bytes;
  }
};

// The results: contiguous, of any dtype that the function allows. divisor: the length for a mean, else 0.
struct Output {
  void* data;
  Dtype dtype;
  bool flipped;
  int64_t divisor;

  // Flipped back, and divided for a mean.
  template <class Op>
  __device__ __forceinline__ typename Op::Value finish(typename Op::Value v) const {
    if constexpr (kExtreme<Op>) return flipped ? flip(v) : v;
    else if constexpr (std::is_floating_point_v<typename Op::Value> && std::is_same_v<Op, Sum<typename Op::Value>>)
      return divisor != 0 ? v / typename Op::Value(divisor) : v;
    else return v;
  }

  // body(n, bits) with the bytes of an element as a constant, and the bits of a value as such an element.
  template <class Op, class Body>
  __device__ __forceinline__ void with_bits(Body body) const {
    using Value = typename Op::Value;
    if constexpr (IsIndexed<Value>::value) {
      body(uint64_t{}, [](Value v) { return uint64_t(v.index); });
    } else if constexpr (std::is_integral_v<Value>) {
      const auto bits = [this](Value v) { return uint64_t(finish<Op>(v)); };
      switch (dtype) {
        case Dtype::int64: return body(uint64_t{}, bits);
        case Dtype::int32: return body(uint32_t{}, bits);
        case Dtype::int16: return body(uint16_t{}, bits);
        default: body(uint8_t{}, [&](Value v) { return dtype == Dtype::boolean ? uint64_t(bits(v) != 0) : bits(v); });
      }
    } else if constexpr (std::is_same_v<Value, double>) {
      body(uint64_t{}, [this](Value v) { return uint64_t(__double_as_longlong(finish<Op>(v))); });
    } else if (dtype == Dtype::float32) {
      body(uint32_t{}, [this](Value v) { return __float_as_uint(finish<Op>(v)); });
    } else {
      body(uint16_t{}, [this](Value v) {
        const float x = finish<Op>(v);
        return dtype == Dtype::bfloat16 ? bfloat16_bits(__float_as_uint(x)) : float_to_half(x);
      });
    }
  }
  template <class Op>
  __device__ __forceinline__ void store(int64_t i, typename Op::Value v) const {
    with_bits<Op>([&]<class U>(U, auto bits) { static_cast<U*>(data)[i] = U(bits(v)); });
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
  // All V of v, from i on, a multiple of V; data is aligned to 16 bytes.
  template <class Op, int V>
  __device__ __forceinline__ void store_vector(int64_t i, const typename Op::Value (&v)[V]) const {
    with_bits<Op>([&]<class U>(U, auto bits) {
      constexpr int N = V * sizeof(U) > 16 ? 16 / sizeof(U) : V;
#pragma unroll
      for (int first = 0; first < V; first += N) {
        AlignedVector<U, N> vector;
#pragma unroll
        for (int k = 0; k < N; k++) vector.element[k] = U(bits(v[first + k]));
        *reinterpret_cast<AlignedVector<U, N>*>(static_cast<U*>(data) + i + first) = vector;
      }
    });
  }
};

}  // namespace torch_reductions::cuda::reduce
