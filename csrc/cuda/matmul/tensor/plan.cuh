// Which tiles a product is divided into, by its sizes and the device; the bits do not depend on it.
#pragma once
#include <algorithm>

#include "../../../common/ceil_div.h"
#include "../ordered/split_k.cuh"
#include "narrow.cuh"
#include "shallow.cuh"
#include "tensor_core.h"

namespace torch_reductions::cuda::matmul {

// Rows, columns, bytes of k per stage, stages, rows and columns of a warp, blocks per multiprocessor, groups of warps
// that only copy.
using WideTensorTile = TensorTile<128, 256, 64, 4, 64, 64, 1, 0>;  // 96 KB: what 8.6 and 8.9 have too
using SquareTensorTile =
    TensorTile<64, 64, 128, 4, 32, 32, 3, 0>;  // for results too small to fill the device with the other
// At most 8 or 16 columns: bytes in flight are what counts, so warps that wait for a product do not copy.
template <int Columns>
using NarrowTensorTile = TensorTile<kNarrowLines, Columns, kNarrowDepthBytes, 8, 16, Columns, kNarrowBlocks, 1>;
// Where a block has a multiprocessor for itself, and one group would take longer to copy a stage than it is multiplied.
using LongTensorTile = TensorTile<kLongLines, kLongColumns, kNarrowDepthBytes, kLongStages, 16, kLongColumns, 1, 2>;
static_assert(LongTensorTile::kBytes + kBarrierBytes<LongTensorTile> == kLongBytes);

template <class Tile>
int64_t tiles_of(const TensorProduct& product) {
  return product.args.batch * ceil_div(product.height, int64_t(Tile::kRows)) *
         ceil_div(product.width, int64_t(Tile::kColumns));
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

// `pieces` pieces of k, each of which is one batch more.
template <class T, class Tile>
void launch_tiles(TensorProduct product, int64_t pieces, Context& context) {
  const int64_t down = ceil_div(product.height, int64_t(Tile::kRows)),
                across = ceil_div(product.width, int64_t(Tile::kColumns)), batches = product.args.batch * pieces;
  if (down > INT32_MAX / across || down * across > INT32_MAX / batches) fail("more than 2^31 - 1 tiles");
  product.down = unsigned(down), product.across = unsigned(across);
  product.tiles = unsigned(batches * product.down * product.across);
  int64_t blocks = product.tiles;
  if (!std::is_integral_v<T> && product.piece > kTensorChunk) {
    // Persistent blocks, otherwise the room for totals would be as large as the result.
    blocks = std::min(blocks, int64_t(multiprocessors(context.device)) * Tile::kBlocks);
    product.totals =
        static_cast<float4*>(context.workspace(size_t(blocks) * (Tile::kRows * Tile::kColumns * sizeof(float))));
  }
  const auto start = [&]<bool RowsAlongK, bool ColumnsAlongK>() {
    constexpr auto kernel = [] {
      if constexpr (kIsShallow<Tile>) return multiply_shallow_fragments<T, Tile, RowsAlongK, ColumnsAlongK>;
      else if constexpr (Tile::kCopyGroups > 0) return multiply_narrow<T, Tile, RowsAlongK, ColumnsAlongK>;
      else return multiply_fragments<T, Tile, RowsAlongK, ColumnsAlongK>;
    }();
    size_t bytes = Tile::kBytes;
    if constexpr (kIsShallow<Tile>) bytes = Tile::bytes(product.args.k * int64_t(sizeof(T)));
    bytes += kBarrierBytes<Tile>;
    if (product.packed) return launch_dependent(kernel, blocks, Tile::kThreads, bytes, context, product);
    launch(kernel, blocks, Tile::kThreads, bytes, context.stream, product);
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

// k whole, or split into its chunks over blocks.
template <class T, class Tile>
void launch_pieces(TensorProduct product, bool split_k, Context& context) {
  product.batches = unsigned(product.args.batch);
  product.first = 0, product.piece = product.args.k;
  if constexpr (!std::is_integral_v<T>) {
    if (split_k) {
      const MatmulArgs args = product.args;
      const auto multiply = [&](int64_t first, int64_t count, float* partials) {
        product.args.output = partials;
        product.first = first * kTensorChunk;
        launch_tiles<T, Tile>(product, count, context);
      };
      product.piece = kTensorChunk;
      product.args.output_dtype = Dtype::float32, product.args.alpha = 1, product.args.added.data = nullptr;
      product.vectors = !product.transposed && args.n % 4 == 0;
      return in_chunks<T>(args, context, multiply);
    }
  }
  launch_tiles<T, Tile>(product, 1, context);
}

template <class T>
void launch_product(const MatmulArgs& args, Context& context) {
  const int out = size_of(args.output_dtype);
  TensorProduct product{
      .args = args, .rows = rows_of(args), .columns = columns_of(args), .height = args.m, .width = args.n};
  const bool shallow = suits_shallow_tiles(args);
  const bool long_chain = !shallow && suits_long_tiles(args, context);
  if (long_chain) {
    const auto [a, b] = pack(args, context);
    product.rows = operand_of(a), product.columns = operand_of(b);
    product.packed = packed(args, a.rows, b.rows);
  }
  // What is narrow has the place of the columns.
  product.transposed = !shallow && (long_chain ? args.m <= args.n : has_few_rows(args));
  if (product.transposed) {
    std::swap(product.rows, product.columns);
    std::swap(product.height, product.width);
  }
  product.vectors =
      !product.transposed && args.n % 4 == 0 && reinterpret_cast<uintptr_t>(args.output) % (4 * size_t(out)) == 0;
  const int64_t processors = multiprocessors(context.device);
  const bool may_split_k = !std::is_integral_v<T> && args.k > kTensorChunk;
  const auto start = [&]<class Tile>(std::type_identity<Tile>) {
    const bool split_k =
        may_split_k && time_of<Tile>(product, kTensorChunk, processors) < time_of<Tile>(product, args.k, processors);
    launch_pieces<T, Tile>(product, split_k, context);
  };
  if constexpr (sizeof(T) == 2) {
    if (long_chain) return start(std::type_identity<LongTensorTile>());
  }
  if (shallow && args.k * int64_t(sizeof(T)) <= 32) start(std::type_identity<ShallowTensorTile<32>>());
  else if (shallow) start(std::type_identity<ShallowTensorTile<128>>());
  else if (product.width <= 8) start(std::type_identity<NarrowTensorTile<8>>());
  else if (product.width <= kNarrow) start(std::type_identity<NarrowTensorTile<kNarrow>>());
  else if (4 * tiles_of<WideTensorTile>(product) >= 3 * processors) start(std::type_identity<WideTensorTile>());
  else start(std::type_identity<SquareTensorTile>());
}

}  // namespace torch_reductions::cuda::matmul
