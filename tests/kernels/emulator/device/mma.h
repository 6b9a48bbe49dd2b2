// What the PTX of the tensor cores stands for: mma.sync and ldmatrix, with the fragments as the PTX manual lays them out.
#pragma once
#include <type_traits>

#include "../../../../csrc/common/dtype.h"
#include "../machine/machine.h"
#include "emulated.h"

namespace emulator {

// A lane's part of D = A B + C, in place of C.
struct Fragments {
  const void* a;
  const void* b;
  void* c;
};
void multiply_bfloat16(void* const (&operands)[kWarpSize], unsigned lanes);
void multiply_float16(void* const (&operands)[kWarpSize], unsigned lanes);
void multiply_int8(void* const (&operands)[kWarpSize], unsigned lanes);
void multiply_uint8(void* const (&operands)[kWarpSize], unsigned lanes);
void multiply_double_16x8x8(void* const (&operands)[kWarpSize], unsigned lanes);
void multiply_double_16x8x16(void* const (&operands)[kWarpSize], unsigned lanes);

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32, or f16.
template <class T>
EMULATED void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                          Place place = Place::current()) {
  Fragments own{a, b, c};
  constexpr bool half = std::is_same_v<T, torch_reductions::Half>;
  meet("mma.sync", ~0u, place, &own, half ? multiply_float16 : multiply_bfloat16);
}

// mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32, or u8.u8: sums wrap.
template <class T>
EMULATED void mma_16x8x32(uint32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                          Place place = Place::current()) {
  Fragments own{a, b, c};
  meet("mma.sync", ~0u, place, &own, std::is_signed_v<T> ? multiply_int8 : multiply_uint8);
}

// mma.sync.aligned.m16n8k8 and m16n8k16 .row.col.f64: a chain of fused multiply-adds, k ascending.
EMULATED void mma_16x8x8(double (&c)[4], const double (&a)[4], const double (&b)[2], Place place = Place::current()) {
  Fragments own{a, b, c};
  meet("mma.sync", ~0u, place, &own, multiply_double_16x8x8);
}
EMULATED void mma_16x8x16(double (&c)[4], const double (&a)[8], const double (&b)[4], Place place = Place::current()) {
  Fragments own{a, b, c};
  meet("mma.sync", ~0u, place, &own, multiply_double_16x8x16);
}

// ldmatrix.sync.aligned.m8n8.x<N>[.trans].shared.b16: lanes 8 i ... 8 i + 7 hold the addresses of matrix i's rows.
struct MatrixRows {
  const void* row;
  uint32_t* words;
  int count;
  bool transposed;
};
void ldmatrix_lanes(void* const (&operands)[kWarpSize], unsigned lanes);

template <bool transposed, int N>
EMULATED void ldmatrix(uint32_t (&words)[N], const void* row, Place place = Place::current()) {
  static_assert(N == 1 || N == 2 || N == 4);
  MatrixRows own{row, words, N, transposed};
  meet("ldmatrix", ~0u, place, &own, ldmatrix_lanes);
}

}  // namespace emulator
