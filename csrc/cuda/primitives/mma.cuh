// Tensor cores: warp-level instructions whose operands are fragments, distributed over the lanes as the PTX manual
// says.
//
// A fragment of 16-bit elements or bytes is read by ldmatrix: a matrix is 8 rows of 16 bytes. Before 8.0, where the
// host's check prevents any call, the products compile to nothing.
#pragma once
#include <cstdint>
#include <type_traits>

#include "../../common/dtype.h"

namespace torch_reductions::cuda {

#define LDMATRIX_4(trans)                                                                  \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])            \
               : "r"(at)                                                                   \
               : "memory")
#define LDMATRIX_2(trans)                                                          \
  asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];" \
               : "=r"(words[0]), "=r"(words[1])                                    \
               : "r"(at)                                                           \
               : "memory")

// N matrices of shared memory: lanes 8 i ... 8 i + 7 hold the addresses of matrix i's rows. A lane receives two 16-bit
// elements of each: of row lane / 4 at 2 (lane % 4), or of the transposed matrix.
template <bool Transposed, int N>
__device__ __forceinline__ void ldmatrix(uint32_t (&words)[N], const void* row) {
  static_assert(N == 2 || N == 4);
#ifdef CUDA_ON_CPU
  emulator::ldmatrix<Transposed>(words, row);
#else
  const unsigned at = unsigned(__cvta_generic_to_shared(row));
  if constexpr (N == 4 && Transposed) LDMATRIX_4(".trans");
  else if constexpr (N == 4) LDMATRIX_4("");
  else if constexpr (Transposed) LDMATRIX_2(".trans");
  else LDMATRIX_2("");
#endif
}
#undef LDMATRIX_4
#undef LDMATRIX_2

// c += a b by one instruction: a lane has four elements of c, in registers of kind `sum`, and four and two registers of
// the factors, of kind `factor`.
#define MMA(shape_and_types, sum, factor)                                                                    \
  asm("mma.sync.aligned." shape_and_types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+" sum(c[0]), "+" sum(c[1]), "+" sum(c[2]), "+" sum(c[3])                                           \
      : factor(a[0]), factor(a[1]), factor(a[2]), factor(a[3]), factor(b[0]), factor(b[1]))

// c += a b, of 16 x 8: a is [16, 16], b is [16, 8], of float16 or bfloat16. On 9.0 what csrc/common/tensor_step.h
// computes.
template <class T>
__device__ __forceinline__ void mma_sync(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>);
#ifdef CUDA_ON_CPU
  emulator::mma_16x8x16<T>(c, a, b);
#elif __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, Half>) MMA("m16n8k16.row.col.f32.f16.f16.f32", "f", "r");
  else MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f", "r");
#endif
}

// The same of bytes, signed or not: a is [16, 32], b is [32, 8]. The sums wrap.
template <class T>
__device__ __forceinline__ void mma_sync(uint32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 1);
#ifdef CUDA_ON_CPU
  emulator::mma_16x8x32<T>(c, a, b);
#elif __CUDA_ARCH__ >= 800
  if constexpr (std::is_signed_v<T>) MMA("m16n8k32.row.col.s32.s8.s8.s32", "r", "r");
  else MMA("m16n8k32.row.col.s32.u8.u8.s32", "r", "r");
#endif
}

// The same of float64, from 9.0 on: there a chain of fused multiply-adds, k ascending. c is [16, 8], a [16, 8], b [8,
// 8]: element i of a is (lane / 4 + 8 (i % 2), lane % 4 + 4 (i / 2)), of b (lane % 4 + 4 i, lane / 4), of c (lane / 4 +
// 8 (i / 2), 2 (lane % 4) + i % 2).
__device__ __forceinline__ void mma_sync(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#ifdef CUDA_ON_CPU
  emulator::mma_16x8x8(c, a, b);
#elif __CUDA_ARCH__ >= 900
  MMA("m16n8k8.row.col.f64.f64.f64.f64", "d", "d");
#endif
}
#undef MMA

// Twice as deep: a is [16, 16], b [16, 8], distributed in the same way.
__device__ __forceinline__ void mma_sync(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
#ifdef CUDA_ON_CPU
  emulator::mma_16x8x16(c, a, b);
#elif __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
      "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
        "d"(b[2]), "d"(b[3]));
#endif
}

}  // namespace torch_reductions::cuda
