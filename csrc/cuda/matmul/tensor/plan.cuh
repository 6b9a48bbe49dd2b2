// Which tiles a product is cut into: by its sizes and the device, which the bits do not depend on.
#pragma once
#include <algorithm>

#include "../../../common/ceil_div.h"
#include "narrow.cuh"
#include "tensor_core.h"

namespace torch_reductions::cuda {

// Rows, columns, bytes of k a stage, stages, rows and columns of a warp, blocks of a multiprocessor, warps that only copy.
using WideTile = TensorTile<128, 256, 64, 4, 64, 64, 1, 0>;   // 96 KB: what 8.6 and 8.9 have too
using SquareTile = TensorTile<64, 64, 128, 4, 32, 32, 3, 0>;  // for results too small to fill the device with the other
// At most 16 rows: bytes on their way are what counts, so that those who wait for a product don't copy.
using NarrowTile = TensorTile<16, 32, 256, 8, 16, 8, 2, 4>;
static_assert(NarrowTile::kRows == kNarrow);

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

template <class T, class Tile>
void launch_tiles(TensorProduct product, Context& context) {
  const int64_t down = ceil_div(product.height, int64_t(Tile::kRows)),
                across = ceil_div(product.width, int64_t(Tile::kColumns));
  if (down > INT32_MAX / across || down * across > INT32_MAX / product.args.batch) fail("more than 2^31 - 1 tiles");
  product.down = unsigned(down), product.across = unsigned(across);
  product.tiles = unsigned(product.args.batch * product.down * product.across);
  int64_t blocks = product.tiles;
  if (!std::is_integral_v<T> && product.args.k > kTensorChunk) {
    // Blocks that stay, or the room for totals would be as large as the result.
    blocks = std::min(blocks, int64_t(multiprocessors(context.device)) * Tile::kBlocks);
    product.totals = context.workspace(size_t(blocks) * (Tile::kRows * Tile::kColumns * sizeof(float)));
  }
  const auto start = [&]<bool RowsAlongK, bool ColumnsAlongK>() {
    constexpr auto kernel = [] {
      if constexpr (Tile::kFirstCopying > 0) return multiply_narrow<T, Tile, RowsAlongK, ColumnsAlongK>;
      else return multiply_fragments<T, Tile, RowsAlongK, ColumnsAlongK>;
    }();
    launch(kernel, blocks, Tile::kThreads, Tile::kBytes, context.stream, product);
  };
  if constexpr (sizeof(T) == 1) {
    start.template operator()<true, true>();
  } else {
    const bool rows = product.rows.k_stride == 1, columns = product.columns.k_stride == 1;
    if (rows && columns) start.template operator()<true, true>();
    else if (rows) start.template operator()<true, false>();
    else if (columns) start.template operator()<false, true>();
    else start.template operator()<false, false>();
  }
}

template <class T>
void launch_product(const MatmulArgs& args, Context& context) {
  const int size = sizeof(T), out = size_of(args.output_dtype);
  TensorProduct product{.args = args,
                        .rows = operand_of(args, args.a, args.m, args.a.row_stride, args.a.column_stride, size),
                        .columns = operand_of(args, args.b, args.n, args.b.column_stride, args.b.row_stride, size),
                        .height = args.m,
                        .width = args.n};
  product.transposed = args.n <= kNarrow && args.n < args.m;
  if (product.transposed) {
    std::swap(product.rows, product.columns);
    std::swap(product.height, product.width);
  }
  product.vectors =
      !product.transposed && args.n % 4 == 0 && reinterpret_cast<uintptr_t>(args.output) % (4 * size_t(out)) == 0;
  const int64_t wide =
      args.batch * ceil_div(args.m, int64_t(WideTile::kRows)) * ceil_div(args.n, int64_t(WideTile::kColumns));
  if (product.height <= kNarrow) launch_tiles<T, NarrowTile>(product, context);
  else if (4 * wide >= 3 * multiprocessors(context.device)) launch_tiles<T, WideTile>(product, context);
  else launch_tiles<T, SquareTile>(product, context);
}

}  // namespace torch_reductions::cuda
