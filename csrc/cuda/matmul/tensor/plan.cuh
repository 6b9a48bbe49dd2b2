// Which tiles a product is divided into, by its sizes and the device; the bits do not depend on it.
#pragma once
#include <algorithm>

#include "../ordered/split_k.cuh"
#include "narrow.cuh"
#include "tensor_core.h"

namespace torch_reductions::cuda::matmul {

// Rows, columns, bytes of k per stage, stages, rows and columns of a warp, blocks per multiprocessor, warps that only
// copy.
using WideTensorTile = TensorTile<128, 256, 64, 4, 64, 64, 1, 0>;  // 96 KB: what 8.6 and 8.9 have too
using SquareTensorTile =
    TensorTile<64, 64, 128, 4, 32, 32, 3, 0>;  // for results too small to fill the device with the other
// At most 8 or 16 columns: bytes in flight are what counts, so warps that wait for a product do not copy.
template <int Columns>
using NarrowTensorTile = TensorTile<32, Columns, 256, 8, 16, Columns, 2, 4>;

inline TensorOperand operand_of(const MatmulArgs& args, const Matrix& matrix, int64_t width, int64_t width_stride,
                                int64_t k_stride, int size) {
  const auto aligned = [&](int64_t stride, int64_t count) { return count <= 1 || stride * size % 16 == 0; };
  const bool along_k = k_stride == 1, lines = along_k || (width_stride == 1 && size == 2);
  return {.data = matrix.data,
          .batch_stride = matrix.batch_stride,
          .width_stride = width_stride,
          .k_stride = k_stride,
          .vectors = lines && reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 &&
                     aligned(matrix.batch_stride, args.batch) &&
                     aligned(along_k ? width_stride : k_stride, along_k ? width : args.k)};
}

template <class Tile>
int64_t tiles_of(const TensorProduct& product) {
  return tiles_of(product.args.batch, product.height, product.width, Tile::kRows, Tile::kColumns);
}

// About how many cycles all of k takes in such pieces: the busiest multiprocessor multiplies one tile after another. A
// step of 16 is never shorter than what an mma.sync waits for the one before.
template <class Tile>
double time_of(const TensorProduct& product, int64_t piece, int64_t processors) {
  constexpr int kLatency = 33, kRate = 1370;  // products a cycle
  constexpr double kStep = std::max(kLatency, Tile::kRows * Tile::kColumns * 16 / kRate);
  const int64_t pieces = ceil_div(product.args.k, piece);
  return double(ceil_div(tiles_of<Tile>(product) * pieces, processors)) * ceil_div(piece, int64_t(16)) * kStep +
         (pieces > 1 ? fold_cycles(product.args, pieces, processors) : 0);
}

template <class T, class Tile, bool RowsAlongK, bool ColumnsAlongK>
constexpr auto kernel_of() {
  if constexpr (Tile::kFirstCopying > 0) return multiply_narrow<T, Tile, RowsAlongK, ColumnsAlongK>;
  else return multiply_fragments<T, Tile, RowsAlongK, ColumnsAlongK>;
}

// Tiles that run together are a group of 8 rows of them.
template <class T, class Tile>
void launch_tiles(TensorProduct product, const KPieces& k, Context& context) {
  product.schedule =
      tile_schedule(product.args.batch, product.height, product.width, Tile::kRows, Tile::kColumns, 8, k);
  product.vectors = !product.transposed && stores_vectors(product.args, 4);
  int64_t blocks = product.schedule.tiles;
  if (!std::is_integral_v<T> && k.length > kTensorChunk) {
    // Persistent blocks, otherwise the room for totals would be as large as the result.
    blocks = std::min(blocks, int64_t(multiprocessors(context.device)) * Tile::kBlocks);
    product.totals = static_cast<AlignedVector<float, 4>*>(
        context.workspace(size_t(blocks) * (Tile::kRows * Tile::kColumns * sizeof(float))));
  }
  with_bool(sizeof(T) == 1 || product.rows.k_stride == 1, [&](auto rows_along_k) {
    with_bool(sizeof(T) == 1 || product.columns.k_stride == 1, [&](auto columns_along_k) {
      if constexpr (sizeof(T) == 2 || (rows_along_k && columns_along_k))
        launch(kernel_of<T, Tile, rows_along_k, columns_along_k>(), blocks, Tile::kThreads, Tile::kBytes,
               context.stream, product);
    });
  });
}

template <class T>
void launch_product(const MatmulArgs& args, Context& context) {
  const int size = sizeof(T);
  TensorProduct product{.args = args,
                        .rows = operand_of(args, args.a, args.m, args.a.row_stride, args.a.column_stride, size),
                        .columns = operand_of(args, args.b, args.n, args.b.column_stride, args.b.row_stride, size),
                        .height = args.m,
                        .width = args.n};
  product.transposed = args.m <= kNarrow && args.m <= args.n;  // what is narrow has the place of the columns
  if (product.transposed) {
    std::swap(product.rows, product.columns);
    std::swap(product.height, product.width);
  }
  const int64_t processors = multiprocessors(context.device);
  // k whole, or split into its chunks over blocks.
  const auto start = [&]<class Tile>(std::type_identity<Tile>) {
    if constexpr (!std::is_integral_v<T>) {
      if (args.k > kTensorChunk &&
          time_of<Tile>(product, kTensorChunk, processors) < time_of<Tile>(product, args.k, processors))
        return in_chunks<T>(args, context, [&](const MatmulArgs& partials, const KPieces& k) {
          product.args = partials;
          launch_tiles<T, Tile>(product, k, context);
        });
    }
    launch_tiles<T, Tile>(product, {0, args.k, 1}, context);
  };
  if (product.width <= 8) start(std::type_identity<NarrowTensorTile<8>>());
  else if (product.width <= kNarrow) start(std::type_identity<NarrowTensorTile<kNarrow>>());
  else if (4 * tiles_of<WideTensorTile>(product) >= 3 * processors) start(std::type_identity<WideTensorTile>());
  else start(std::type_identity<SquareTensorTile>());
}

}  // namespace torch_reductions::cuda::matmul
