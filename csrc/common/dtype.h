// Element types as plain C++ storage, the same on both devices, and what each accumulates in.
#pragma once
#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__ __forceinline__
#else
#define HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace torch_reductions {

enum class Dtype : int { float16, bfloat16, float32, float64, int8, uint8, int16, int32, int64, boolean };
inline constexpr int kDtypes = 10;

// Two bytes of storage; the arithmetic is float's. Each device has its own conversions.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// A byte of a bool tensor: any value except 0 is true, as in torch.
struct Bool {
  uint8_t byte;
};
template <class T>
inline constexpr bool kIsBool = std::is_same_v<T, Bool>;

// float for float16, bfloat16 and float32; double for float64; int64, wrapping, for every integer and bool.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double,
                                       std::conditional_t<std::is_integral_v<T> || kIsBool<T>, int64_t, float>>;

// What products of matrices accumulate in: float for float16, bfloat16 and float32; integers wrap, those of at most 32
// bits in 32.
template <class T>
using ProductOf =
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>, Accumulator<T>>;
// What two elements are added in: float for float16, bfloat16 and float32; integers of their own size, which wrap.
template <class T>
using AddType =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<Accumulator<T>>>::type;
// Elements of k in one chain: of fused multiply-adds, and of steps of the tensor cores (docs/order.md).
inline constexpr int64_t kProductChunk = 512, kTensorChunk = 8192;

constexpr int size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
    case Dtype::int64: return 8;
    case Dtype::float32:
    case Dtype::int32: return 4;
    case Dtype::float16:
    case Dtype::bfloat16:
    case Dtype::int16: return 2;
    default: return 1;
  }
}

// body(std::type_identity<T>()) with the storage type of dtype; a bool is a byte, and code that adds or multiplies
// bools takes Bool instead.
template <class Body>
constexpr void with_storage(Dtype dtype, Body&& body) {
  switch (dtype) {
    case Dtype::float16: return body(std::type_identity<Half>());
    case Dtype::bfloat16: return body(std::type_identity<BFloat16>());
    case Dtype::float32: return body(std::type_identity<float>());
    case Dtype::float64: return body(std::type_identity<double>());
    case Dtype::int8: return body(std::type_identity<int8_t>());
    case Dtype::uint8:
    case Dtype::boolean: return body(std::type_identity<uint8_t>());
    case Dtype::int16: return body(std::type_identity<int16_t>());
    case Dtype::int32: return body(std::type_identity<int32_t>());
    case Dtype::int64: return body(std::type_identity<int64_t>());
  }
}

// body(std::type_identity<T>(), std::type_identity<Out>()) with the storage of a product's factors and of its result.
template <class Body>
constexpr void with_product_types(Dtype dtype, Dtype output_dtype, Body&& body) {
  with_storage(dtype, [&]<class T>(std::type_identity<T> storage) {
    using Wide = std::conditional_t<std::is_integral_v<T>, int32_t, float>;
    if constexpr (sizeof(T) < 4) {
      if (output_dtype != dtype) return body(storage, std::type_identity<Wide>());
    }
    body(storage, storage);
  });
}

// bfloat16 is the upper half of a float; rounding is to nearest, ties to even, and a NaN stays a NaN.
HOST_DEVICE uint16_t bfloat16_bits(uint32_t float_bits) {
  if ((float_bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return uint16_t((float_bits + 0x7fffu + (float_bits >> 16 & 1)) >> 16);
}

}  // namespace torch_reductions
