// What the textbook's rungs of matrix products have in common: their types, and a block for each tile of the result.
#pragma once
#include "../../common/ceil_div.h"
#include "elements.cuh"

namespace torch_reductions::cuda::matmul {

// body(std::type_identity<T>()): float, or uint32_t for int32, whose sums wrap.
template <class Body>
void with_textbook_types(Dtype dtype, Body&& body) {
  if (dtype == Dtype::float32) body(std::type_identity<float>());
  else body(std::type_identity<uint32_t>());
}

// body(std::integral_constant<int, tile>()), where it is one of kTiles.
template <int... kTiles, class Body>
void with_tile(int tile, Body&& body) {
  ((tile == kTiles ? body(std::integral_constant<int, kTiles>()) : void()), ...);
}

// How many tiles one batch of the result has; block by block they go along a row of tiles, then down, then to the next
// batch.
struct Tiles {
  unsigned rows, columns;
};

// A tile's batch, and its first row and column.
struct Corner {
  int64_t batch, i, j;
};

template <int Height, int Width>
__device__ __forceinline__ Corner corner_of_block(const Tiles& tiles) {
  const unsigned column = blockIdx.x % tiles.columns, above = blockIdx.x / tiles.columns;
  return {above / tiles.rows, int64_t(above % tiles.rows) * Height, int64_t(column) * Width};
}

// One block of `threads` threads per tile.
template <int Height, int Width>
void launch_tiles(void (*kernel)(MatmulArgs, Tiles), const MatmulArgs& args, Context& context, unsigned threads,
                  size_t shared_bytes = 0) {
  const int64_t rows = ceil_div(args.m, int64_t(Height)), columns = ceil_div(args.n, int64_t(Width));
  launch(kernel, args.batch * rows * columns, threads, shared_bytes, context.stream, args,
         Tiles{unsigned(rows), unsigned(columns)});
}

}  // namespace torch_reductions::cuda::matmul
