// How sums of tensor_core_hopper leave: a warp's 16 rows, 64 columns at a time, by way of its own shared memory, so that
// lines of the output are written at once. Columns are permuted by their row: neither way in nor way out meets a bank
// twice.
#pragma once
#include "../../primitives/shared.cuh"
#include "../elements.cuh"
#include "../tile_scheduler.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

constexpr int kRows = 64;                      // of a warpgroup's part of the result's tile
constexpr int kStagingBytes = 16 * kRows * 4;  // a warp's 16 rows of 64 columns of sums

// One launch.
struct Plan {
  MatmulArgs args;
  TileSchedule schedule;               // of clusters, which are one or two tiles high
  int log_cluster;                     // 1: 2-CTA clusters, 0: single blocks
  bool a_batches, b_batches;           // has each batch a matrix of its own?
  bool vec4, vec8;                     // may four, or eight elements of a row be stored at once?
  bool convert_only;                   // alpha is 1 and nothing is added: the epilogue only rounds
  AlignedVector<uint32_t, 4>* totals;  // of the chains so far, where there are several: a part for each block
};

// 16 rows of 64 columns from the staging buffer. With vec4 a lane has four columns of every second row; otherwise two
// of each row, 32 apart.
template <class Out, class Sum>
__device__ __forceinline__ void write_staged(const Plan& plan, const char* staging, int batch, int row, int column) {
  const MatmulArgs& args = plan.args;
  const int lane = threadIdx.x % 32, rows = int(min(args.m - row, int64_t(16)));
  Out* to = static_cast<Out*>(args.output) + (batch * args.m + row) * args.n + column;
  if (plan.vec4) {
    const int first = lane % 16 * 4;
    if (column + first >= args.n) return;
    to += lane / 16 * args.n + first;
#pragma unroll 2
    for (int r = lane / 16; r < rows; r += 2, to += 2 * args.n) {
      const auto sums = reinterpret_cast<const AlignedVector<Sum, 4>*>(staging)[r * 16 + (lane % 16 ^ (r & 3) * 2)];
      AlignedVector<Out, 4> vector;
#pragma unroll
      for (int c = 0; c < 4; c++)
        vector.element[c] = plan.convert_only
                                ? rounded<Out>(sums.element[c])
                                : product_of<Out>(args, batch, row + r, column + first + c, sums.element[c]);
      *reinterpret_cast<AlignedVector<Out, 4>*>(to) = vector;
    }
  } else {
#pragma unroll 2
    for (int r = 0; r < rows; r++, to += args.n) {
#pragma unroll
      for (int c = lane; c < kRows; c += 32) {
        const Sum sum = reinterpret_cast<const Sum*>(staging)[r * kRows + (c ^ (r & 3) * 8)];
        if (column + c < args.n) to[c] = product_of<Out>(args, batch, row + r, column + c, sum);
      }
    }
  }
}

// 16 rows of 64 columns of 2 bytes, which lie in the staging buffer as rows of 32 words, permuted in groups of four.
// Where rows of the output begin at odd places, a lane takes its words from two.
template <class Out>
__device__ __forceinline__ void write_rounded(const Plan& plan, const uint32_t* staging, int batch, int row,
                                              int column) {
  const MatmulArgs& args = plan.args;
  const int lane = threadIdx.x % 32, rows = int(min(args.m - row, int64_t(16)));
  const int left = int(min(args.n - column, int64_t(kRows)));
  Out* to = static_cast<Out*>(args.output) + (batch * args.m + row) * args.n + column;
  if (plan.vec8) {
    const int piece = lane % 8;
    if (8 * piece >= left) return;
    to += lane / 8 * args.n + 8 * piece;
#pragma unroll
    for (int r = lane / 8; r < 16; r += 4, to += 4 * args.n)
      if (r < rows) *reinterpret_cast<uint4*>(to) = reinterpret_cast<const uint4*>(staging)[r * 8 + (piece ^ r & 7)];
    return;
  }
#pragma unroll 4
  for (int r = 0; r < rows; r++, to += args.n) {
    const int odd = reinterpret_cast<uintptr_t>(to) / sizeof(Out) % 2, first = 2 * lane + odd;
    const uint32_t word = staging[r * 32 + (lane ^ (r & 7) * 4)];
    const uint32_t next = staging[r * 32 + (min(lane + odd, 31) ^ (r & 7) * 4)];
    const uint32_t pair = odd ? __byte_perm(word, next, 0x5432) : word;
    if (first + 1 < left) *reinterpret_cast<uint32_t*>(to + first) = pair;
    else if (first < left) *reinterpret_cast<uint16_t*>(to + first) = uint16_t(pair);
    if (odd && lane == 0 && left > 0) *reinterpret_cast<uint16_t*>(to) = uint16_t(word);
  }
}

// Sums that are only rounded to the factors' type.
template <class T, int N>
__device__ __forceinline__ void write_rounded_tile(const Plan& plan, const uint32_t (&d)[N / 2], char* staging,
                                                   int batch, int row, int column) {
  constexpr auto pair = std::is_same_v<T, BFloat16> ? bfloat16_pair : half_pair;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int part = 0; part < N / kRows; part++) {
    uint32_t* const words =
        reinterpret_cast<uint32_t*>(staging + part % 2 * (kStagingBytes / 2));  // the other half is read
#pragma unroll
    for (int c = 0; c < 8; c++) {
      const int at = part * 32 + 4 * c, word = lane / 4 * 32 + ((4 * c + lane % 4) ^ lane / 4 * 4);
      words[word] = pair(__uint_as_float(d[at]), __uint_as_float(d[at + 1]));
      words[word + 8 * 32] = pair(__uint_as_float(d[at + 2]), __uint_as_float(d[at + 3]));
    }
    __syncwarp();
    write_rounded<T>(plan, words, batch, row, column + part * kRows);
  }
  __syncwarp();  // before the next tile
}

// All others.
template <class T, int N>
__device__ __forceinline__ void write_tile(const Plan& plan, const uint32_t (&d)[N / 2], char* staging, int batch,
                                           int row, int column) {
  using Wide = std::conditional_t<std::is_integral_v<T>, int32_t, float>;
  using Sum = ProductOf<T>;
  const int lane = threadIdx.x % 32;
  uint2* const pairs = reinterpret_cast<uint2*>(staging) + lane / 4 * 32;
#pragma unroll
  for (int part = 0; part < N / kRows; part++) {
    __syncwarp();  // all have read the part before
#pragma unroll
    for (int c = 0; c < 8; c++) {
      const int pair = (4 * c + lane % 4) ^ lane / 4 % 4 * 4, at = part * 32 + 4 * c;
      pairs[pair] = {d[at], d[at + 1]};
      pairs[pair + 8 * 32] = {d[at + 2], d[at + 3]};
    }
    __syncwarp();
    if (plan.args.output_dtype == plan.args.dtype)
      write_staged<T, Sum>(plan, staging, batch, row, column + part * kRows);
    else write_staged<Wide, Sum>(plan, staging, batch, row, column + part * kRows);
  }
}

}  // namespace
}  // namespace torch_reductions::cuda::matmul
