// Operands that the TMA cannot read as they lie, copied into rows that it can: aligned, and of bytes along k.
#pragma once
#include "../../../common/ceil_div.h"
#include "../../primitives/thread.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

constexpr int kPackThreads = 256, kPackVectors = 8;  // of 16 bytes, that a thread copies
constexpr int kAcross = 64, kDown = 128;             // the tile that a block transposes: columns and rows of the source

// Bytes of `outer` matrices of `rows` rows; the target's rows are whole vectors.
struct Packing {
  const char* from;
  char* to;
  int64_t columns, rows, row_stride, outer_stride;  // of the source
  int64_t to_row_stride, to_outer_stride;
};

// Both operands of a product, or one: a row in `parts`, of which there are `all`.
struct Rows {
  Packing packing[2];
  int64_t parts[2], all[2];
};

// A warp copies 4 KB of a row. Vectors are read where they are aligned, and shifted. What the first and last vector
// hold besides the row is read too, and not used; reading it is safe, because a page begins and ends with a vector.
__global__ void __launch_bounds__(kPackThreads) copy_rows(const __grid_constant__ Rows rows) {
  int64_t part = blockIdx.x * int64_t(kPackThreads / 32) + threadIdx.x / 32;
  const int operand = part >= rows.all[0];
  if (operand == 1) part -= rows.all[0];
  if (part >= rows.all[operand]) return;
  const Packing& p = rows.packing[operand];
  const int64_t parts = rows.parts[operand];
  const int64_t line = part / parts, outer = line / p.rows, row = line % p.rows;
  const char* const from = p.from + outer * p.outer_stride + row * p.row_stride;
  char* const to = p.to + outer * p.to_outer_stride + row * p.to_row_stride;
  const int shift = int(reinterpret_cast<uintptr_t>(from) % 16);
  const int64_t first = part % parts * (32 * kPackVectors * 16) + threadIdx.x % 32 * 16;
#pragma unroll
  for (int i = 0; i < kPackVectors; i++) {
    const int64_t at = first + i * (32 * 16);
    if (at >= p.columns) break;
    const uint4* const source = reinterpret_cast<const uint4*>(from + at - shift);  // holds an element of the row
    const uint4 low = source[0], high = at - shift + 16 < p.columns ? source[1] : uint4{};
    uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    realign<true>(words, shift);
    const uint4 vector{words[0], words[1], words[2], words[3]};
    *reinterpret_cast<uint4*>(to + at) = vector;
  }
}

// Four bytes of a row from a column on; what lies behind the row is 0.
__device__ __forceinline__ uint32_t four_bytes(const char* row, int64_t column, int64_t columns) {
  const char* const p = row + column;
  if (reinterpret_cast<uintptr_t>(p) % 4 == 0 && column + 4 <= columns) return *reinterpret_cast<const uint32_t*>(p);
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (column + i < columns) word |= uint32_t(uint8_t(p[i])) << 8 * i;
  return word;
}

// The bytes of row r and column c become those of row c and column r. A lane turns squares of 4 x 4 around.
__global__ void __launch_bounds__(kPackThreads)
    transpose_bytes(const __grid_constant__ Packing p, unsigned across, unsigned down) {
  __shared__ uint32_t turned[kAcross][kDown / 4 + 1];
  const int64_t outer = blockIdx.x / across / down;
  const int64_t first_row = int64_t(blockIdx.x / across % down) * kDown;
  const int64_t first_column = int64_t(blockIdx.x % across) * kAcross;
  const char* const from = p.from + outer * p.outer_stride;
  char* const to = p.to + outer * p.to_outer_stride;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int column = (half * 8 + lane % 8) * 4, row = (warp * 4 + lane / 8) * 4;  // within the tile
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int64_t r = first_row + row + i;
      w[i] = r < p.rows ? four_bytes(from + r * p.row_stride, first_column + column, p.columns) : 0;
    }
    const uint32_t low01 = __byte_perm(w[0], w[1], 0x5140), high01 = __byte_perm(w[0], w[1], 0x7362);
    const uint32_t low23 = __byte_perm(w[2], w[3], 0x5140), high23 = __byte_perm(w[2], w[3], 0x7362);
    turned[column][row / 4] = __byte_perm(low01, low23, 0x5410);
    turned[column + 1][row / 4] = __byte_perm(low01, low23, 0x7632);
    turned[column + 2][row / 4] = __byte_perm(high01, high23, 0x5410);
    turned[column + 3][row / 4] = __byte_perm(high01, high23, 0x7632);
  }
  __syncthreads();
  if (first_row + lane * 4 >= p.rows) return;
#pragma unroll
  for (int i = 0; i < kAcross / 8; i++) {
    const int64_t column = first_column + warp * 8 + i;
    if (column < p.columns)
      *reinterpret_cast<uint32_t*>(to + column * p.to_row_stride + first_row + lane * 4) = turned[warp * 8 + i][lane];
  }
}

}  // namespace
}  // namespace torch_reductions::cuda::matmul
