// Which tile of a product a block computes, and over which piece of k.
#pragma once
#include "../../common/args.h"
#include "../../common/ceil_div.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::matmul {

// Tiles are numbered down `group` rows of them, then to the right; then come the next rows, the next batch, and the next
// piece of k. So blocks that run at the same time share rows of a and columns of b, which then come from the L2.
struct TileSchedule {
  unsigned down, across, group, tiles;  // of a matrix; tiles: of all batches and pieces
  int64_t first, piece;                 // of k: where the first piece begins, and how long each is
};

struct TileCoord {
  unsigned row, column;   // in tiles
  unsigned matrix;        // of the results, of which each piece of k has one for each batch
  unsigned batch, piece;  // of the factors
  int64_t begin, depth;   // of k

  __device__ __forceinline__ TileCoord(const MatmulArgs& args, const TileSchedule& schedule, unsigned tile) {
    matrix = tile / (schedule.down * schedule.across);
    const unsigned in_matrix = tile - matrix * (schedule.down * schedule.across);
    const unsigned top = in_matrix / (schedule.group * schedule.across) * schedule.group;
    const unsigned in_group = in_matrix - top * schedule.across, height = min(schedule.down - top, schedule.group);
    row = top + in_group % height, column = in_group / height;
    batch = matrix % unsigned(args.batch), piece = matrix / unsigned(args.batch);
    begin = schedule.first + piece * schedule.piece;
    depth = min(schedule.piece, args.k - begin);
  }
};

inline int64_t tiles_of(int64_t batch, int64_t height, int64_t width, int64_t rows, int64_t columns) {
  return batch * ceil_div(height, rows) * ceil_div(width, columns);
}

// Of tiles of rows x columns, in groups of at most `group`; `pieces` pieces of k.
inline TileSchedule schedule_of(int64_t batch, int64_t height, int64_t width, int64_t rows, int64_t columns,
                                int64_t group, int64_t first, int64_t piece, int64_t pieces) {
  const int64_t down = ceil_div(height, rows), across = ceil_div(width, columns);
  if (down > INT32_MAX / across || down * across > INT32_MAX / (batch * pieces)) fail("more than 2^31 - 1 tiles");
  return {unsigned(down),
          unsigned(across),
          unsigned(group < down ? group : down),
          unsigned(down * across * batch * pieces),
          first,
          piece};
}

// body(tile) for each tile of a persistent block.
template <class Body>
__device__ __forceinline__ void for_tiles(const TileSchedule& schedule, Body body) {
#pragma unroll 1
  for (unsigned tile = blockIdx.x; tile < schedule.tiles; tile += gridDim.x) {
    body(tile);
    __syncthreads();  // before the next tile's stages
  }
}

}  // namespace torch_reductions::cuda::matmul
