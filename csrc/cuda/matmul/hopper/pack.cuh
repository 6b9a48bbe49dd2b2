// Operands that the TMA cannot read as they lie, copied into rows that it can: aligned, and of bytes along k.
#pragma once
#include "../../../common/ceil_div.h"
#include "../../primitives/dependent.cuh"
#include "../../primitives/thread.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

constexpr int kPackThreads = 256, kPackVectors = 4;  // of 16 bytes, that a thread copies
constexpr int kAcross = 64, kDown = 128;             // the tile that a block transposes: columns and rows of the source

// Bytes of `outer` matrices of `rows` rows; the target's rows are whole vectors.
struct Packing {
  const char* from;
  char* to;
  int64_t columns, rows, row_stride, outer_stride;  // of the source
  int64_t to_row_stride, to_outer_stride;
};

// Both operands of a product, or one: a row in `parts`, each of which 2^log_lanes threads copy; `all` threads.
struct Rows {
  Packing packing[2];
  int64_t parts[2], all[2];
  int log_lanes[2];
};

// Vectors are read where they are aligned, and shifted: all of a thread's before it writes the first one. What the first
// and last vector hold besides the row is read too, and not used; reading it is safe, because a page begins and ends
// with a vector.
__global__ void __launch_bounds__(kPackThreads) copy_rows(const __grid_constant__ Rows rows) {
  start_next_launch();
  int64_t thread = blockIdx.x * int64_t(kPackThreads) + threadIdx.x;
  const int operand = thread >= rows.all[0];
  if (operand == 1) thread -= rows.all[0];
  if (thread >= rows.all[operand]) return;
  const Packing& p = rows.packing[operand];
  const int log_lanes = rows.log_lanes[operand];
  const int64_t parts = rows.parts[operand], part = thread >> log_lanes;
  const int64_t line = part / parts, outer = line / p.rows, row = line - outer * p.rows;
  const char* const from = p.from + outer * p.outer_stride + row * p.row_stride;
  char* const to = p.to + outer * p.to_outer_stride + row * p.to_row_stride;
  const int shift = int(reinterpret_cast<uintptr_t>(from) % 16);
  const int64_t lane = thread & ((1 << log_lanes) - 1);
  const int64_t first = (((part - line * parts) * kPackVectors << log_lanes) + lane) * 16;
  const auto column = [&](int i) { return first + (i * 16 << log_lanes); };
  uint4 low[kPackVectors], high[kPackVectors];
#pragma unroll
  for (int i = 0; i < kPackVectors; i++) {
    const int64_t at = column(i) - shift;
    const uint4* const source = reinterpret_cast<const uint4*>(from + at);
    low[i] = at + shift < p.columns ? source[0] : uint4{};  // holds an element of the row
    high[i] = shift > 0 && at + 16 < p.columns ? source[1] : uint4{};
  }
#pragma unroll
  for (int i = 0; i < kPackVectors; i++) {
    if (column(i) >= p.columns) break;
    uint32_t words[8] = {low[i].x, low[i].y, low[i].z, low[i].w, high[i].x, high[i].y, high[i].z, high[i].w};
    realign<true>(words, shift);
    const uint4 vector{words[0], words[1], words[2], words[3]};
    *reinterpret_cast<uint4*>(to + column(i)) = vector;
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
