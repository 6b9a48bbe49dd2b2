// The kernel for a short k, all of which is in shared memory at once: little is multiplied, and the result is most of
// what is moved. Small tiles, many blocks of a multiprocessor, so that some store while others load; and little code,
// which comes from memory too.
//
// Local:   multiply_shallow_fragments (8 bytes): where an operand's next stage begins, while one is on its way.
#pragma once
#include <algorithm>
#include <type_traits>

#include "../../../common/ceil_div.h"
#include "kernel.cuh"
#include "tensor_core.h"

namespace torch_reductions::cuda::matmul {

// DepthBytes: 32 where one step is all of k; so many stages as there is room for what is stored, of which one is used.
template <int DepthBytes>
struct ShallowTensorTile
    : TensorTile<64, 64, DepthBytes, DepthBytes == 32 ? 5 : kShallowBytes / DepthBytes, 16, 64, 6, 0> {
  // Of so many bytes of k; what is stored goes through the same memory.
  static size_t bytes(int64_t depth_bytes) {
    const size_t stages = size_t(ceil_div(depth_bytes, int64_t(DepthBytes)));
    return std::max(stages * ShallowTensorTile::kStageBytes,
                    size_t(ShallowTensorTile::kMultiplying / 32 * 16 * ShallowTensorTile::kOutStride * 4));
  }
};
template <class Tile>
inline constexpr bool kIsShallow = false;
template <int DepthBytes>
inline constexpr bool kIsShallow<ShallowTensorTile<DepthBytes>> = true;

// 16 rows of a warp's sums, staged in shared memory, to the result from (row, column) on, where they are only rounded:
// neighbouring lanes store neighbours.
template <class Out, class Tile, class Sum>
__device__ __forceinline__ void store_rounded(const TensorProduct& product, unsigned batch, int64_t row, int64_t column,
                                              const Sum* staged) {
  const int rows = int(product.height - row < 16 ? product.height - row : 16);
  const int columns = int(product.width - column < Tile::kWarpColumns ? product.width - column : Tile::kWarpColumns);
  Out* const to = static_cast<Out*>(product.args.output) + (batch * product.args.m + row) * product.args.n + column;
#pragma unroll 1
  for (int j = int(threadIdx.x % 32); j < columns; j += 32) {
#pragma unroll 4
    for (int i = 0; i < rows; i++) to[i * product.args.n + j] = rounded<Out>(staged[i * Tile::kOutStride + j]);
  }
}

template <class T, class Tile, bool RowsAlongK, bool ColumnsAlongK>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    multiply_shallow_fragments(const __grid_constant__ TensorProduct product) {
  using Sum = ProductOf<T>;
  using Rows = SharedTile<T, Tile::kRows, Tile::kDepthBytes, RowsAlongK, 0, Tile::kThreads>;
  using Columns = SharedTile<T, Tile::kColumns, Tile::kDepthBytes, ColumnsAlongK, 0, Tile::kThreads>;
  constexpr int kAcross = Tile::kWarpColumns / 8, kSteps = Tile::kDepthBytes / 32;
  char* const shared = reinterpret_cast<char*>(memory);
  const int lane = int(threadIdx.x % 32), warp_row = int(threadIdx.x / 32) * Tile::kWarpRows;
  const TensorTileCoord coord(product, blockIdx.x);
  typename Rows::Loader rows(product.rows, coord.factors, int64_t(coord.row) * Tile::kRows, product.height, coord.begin,
                             coord.depth);
  typename Columns::Loader columns(product.columns, coord.factors, int64_t(coord.column) * Tile::kColumns,
                                   product.width, coord.begin, coord.depth);
  // Stage by stage, for registers are few: later ones come from the L2, which gets them together with the first one.
#pragma unroll 1
  for (int stage = 1; stage * Rows::kDepth < coord.depth; stage++) {
    rows.prefetch(stage, coord.depth - stage * Rows::kDepth);
    columns.prefetch(stage, coord.depth - stage * Rows::kDepth);
  }
#pragma unroll 1
  for (int stage = 0; stage * Rows::kDepth < coord.depth; stage++) {
    char* const to = shared + stage * Tile::kStageBytes;
    const int64_t left = coord.depth - stage * Rows::kDepth;
    typename Rows::Loader::template Shifted<Rows::kPiecesAThread> of_rows;
    typename Columns::Loader::template Shifted<Columns::kPiecesAThread> of_columns;
    rows.fetch(of_rows, 0, left);
    columns.fetch(of_columns, 0, left);
    rows.put(to, 0, of_rows);
    columns.put(to + Rows::kBytes, 0, of_columns);
    rows.next();
    columns.next();
  }
  __syncthreads();
  Sum sums[1][kAcross][4] = {};
  const int steps = int(coord.depth * int64_t(sizeof(T)) + 31) / 32;
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    const char* const at = shared + step / kSteps * Tile::kStageBytes;
    Fragments<1, kAcross> from;
    Rows::template fragment<false>(from.rows[0], at, warp_row, step % kSteps, lane);
#pragma unroll
    for (int j = 0; j < kAcross; j += 2)
      Columns::template fragment<true>(from.columns[j / 2], at + Rows::kBytes, j * 8, step % kSteps, lane);
#pragma unroll
    for (int j = 0; j < kAcross; j++) mma_sync<T>(sums[0][j], from.rows[0], from.of_column(j));
  }
  __syncthreads();  // no thread reads the stages any more
  Sum* const out = reinterpret_cast<Sum*>(shared) + threadIdx.x / 32 * (16 * Tile::kOutStride);
  stage_rows<Tile>(out, sums[0]);
  __syncwarp();
  const int64_t row = int64_t(coord.row) * Tile::kRows + warp_row, column = int64_t(coord.column) * Tile::kColumns;
  if (product.args.alpha == 1 && product.args.added.data == nullptr && product.args.output_dtype == product.args.dtype)
    store_rounded<T, Tile>(product, coord.batch, row, column, out);
  else if (product.args.output_dtype == product.args.dtype) store_rows<T, Tile>(product, coord.batch, row, column, out);
  else store_rows<Sum, Tile>(product, coord.batch, row, column, out);
}

}  // namespace torch_reductions::cuda::matmul
