// Tensor maps, which describe a tensor to the TMA (Hopper): the host encodes one, a kernel takes it as `const
// __grid_constant__ CUtensorMap`.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "../../common/dtype.h"

namespace torch_reductions::cuda {

// A row of a tile in shared memory: rows are contiguous, and within eight rows the 16-byte pieces are permuted (the
// swizzle of 128 bytes) so that a column of pieces covers every bank: piece p of row r stands at p ^ (r % 8). A tile
// begins at a multiple of 1024.
inline constexpr int kTileRowBytes = 128;
inline constexpr int64_t kMapAlignment = 16;                  // bytes, of addresses and strides
inline constexpr int64_t kMapStrideLimit = int64_t(1) << 40;  // bytes: a tensor map's strides are less

// A tensor of `outer` matrices of `rows` rows of `columns` elements, which lie behind one another. Strides in elements.
struct MatrixBatch {
  const void* data;
  int64_t columns, rows, outer;
  int64_t row_stride, outer_stride;
};

// The map of tiles of `tile_rows` (at most 256) rows of kTileRowBytes. What stands outside of the tensor is read as
// zeros.
CUtensorMap map_of(const MatrixBatch& rows, Dtype dtype, int tile_rows);

}  // namespace torch_reductions::cuda
