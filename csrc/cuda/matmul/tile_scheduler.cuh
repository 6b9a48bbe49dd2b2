// Which tile of a product a block computes, and over which piece of k.
#pragma once
#include "plans.cuh"

namespace torch_reductions::cuda::matmul {

// Pieces of k that different blocks multiply, all but the last of the same length.
struct KPieces {
  int64_t first, length, count;
};

// Tiles are numbered down `group` rows of them, then to the right; then come the next rows, the next batch, and the next
// piece of k. So blocks that run at the same time share rows of a and columns of b, which then come from the L2.
struct TileSchedule {
  unsigned down, across, group, tiles;  // of a matrix; tiles: of all batches and pieces
  KPieces k;
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
    begin = schedule.k.first + piece * schedule.k.length;
    depth = min(schedule.k.length, args.k - begin);
  }
};

// Of tiles of rows x columns, in groups of at most `group`.
inline TileSchedule tile_schedule(int64_t batch, int64_t height, int64_t width, int64_t rows, int64_t columns,
                                  int64_t group, const KPieces& k) {
  const int64_t down = ceil_div(height, rows), across = ceil_div(width, columns), matrices = batch * k.count;
  if (down > INT32_MAX / across || down * across > INT32_MAX / matrices) fail("more than 2^31 - 1 tiles");
  return {unsigned(down), unsigned(across), unsigned(group < down ? group : down), unsigned(down * across * matrices),
          k};
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
