// The kernel of the products on tensor cores: blocks go from tile to tile of the result.
#pragma once
#include "../elements.cuh"
#include "shared_tile.cuh"

namespace torch_reductions::cuda::matmul {

inline constexpr int kCopying = 128;  // threads of a group that only copies

// A block's tile of the result, 32 bytes of k a step and DepthBytes a stage, and its warps' tiles in it. CopyGroups:
// how many groups of threads only copy (narrow.cuh); with none, those that multiply copy too.
template <int Rows, int Columns, int DepthBytes, int Stages, int WarpRows, int WarpColumns, int Blocks, int CopyGroups>
struct TensorTile {
  static constexpr int kRows = Rows, kColumns = Columns, kDepthBytes = DepthBytes, kStages = Stages;
  static constexpr int kWarpRows = WarpRows, kWarpColumns = WarpColumns, kWarpsAcross = Columns / WarpColumns;
  static constexpr int kMultiplying = Rows / WarpRows * kWarpsAcross * 32;  // threads
  static constexpr int kCopyGroups = CopyGroups, kThreads = kMultiplying + CopyGroups * kCopying;
  static constexpr int kBlocks = Blocks;  // of a multiprocessor of 9.0
  static constexpr int kStageBytes = (Rows + Columns) * DepthBytes, kBytes = Stages * kStageBytes;
  // Sums that are staged for stores, 16 rows of a warp at a time: with 8 words after each 32, stores of a warp use all
  // banks.
  static constexpr int kOutStride = WarpColumns % 32 == 0 ? WarpColumns + 8 : WarpColumns;
  static_assert(kMultiplying / 32 * 16 * kOutStride * 4 <= kBytes);
};

// A product whose rows and columns may have changed places: then what is computed is its transpose.
struct TensorProduct {
  MatmulArgs args;
  TensorOperand rows, columns;
  int64_t height, width;         // of the result as it is computed
  unsigned tiles, down, across;  // of all batches and pieces of k; of a matrix
  unsigned batches;              // of each piece
  int64_t first, piece;          // of k: where the first piece begins, and how long each is
  bool transposed, vectors;      // vectors: n is whole and the result aligned for four neighbours at once
  bool packed;                   // a launch before has packed operands, and is awaited
  float4* totals;                // where k has more than one chunk: room for the tile of each block
};

// Tiles in groups of rows, column by column: what the blocks that run together read stays in the L2. Batches of one
// piece of k follow those of the piece before.
struct TensorTileCoord {
  unsigned batch, row, column;  // of the result
  unsigned factors;             // their batch
  int64_t begin, depth;         // of k

  __device__ __forceinline__ TensorTileCoord(const TensorProduct& product, unsigned tile) {
    const unsigned group = product.down < 8 ? product.down : 8;  // so that group * across does not overflow
    batch = tile / (product.down * product.across);
    const unsigned in_batch = tile - batch * (product.down * product.across);
    const unsigned first = in_batch / (group * product.across) * group, in_group = in_batch - first * product.across;
    const unsigned rows = product.down - first < group ? product.down - first : group;
    row = first + in_group % rows, column = in_group / rows;
    factors = batch % product.batches;
    begin = product.first + batch / product.batches * product.piece;
    depth = product.args.k - begin < product.piece ? product.args.k - begin : product.piece;
  }
};

// Four neighbours of a row from (i, j) on.
template <class Out, class Sum>
__device__ __forceinline__ void store_neighbours(const MatmulArgs& args, int64_t batch, int64_t i, int64_t j,
                                                 const AlignedVector<Sum, 4>& sums) {
  AlignedVector<Out, 4> vector;
#pragma unroll
  for (int c = 0; c < 4; c++) vector.element[c] = product_of<Out>(args, batch, i, j + c, sums.element[c]);
  *reinterpret_cast<AlignedVector<Out, 4>*>(static_cast<Out*>(args.output) + (batch * args.m + i) * args.n + j) =
      vector;
}

// What a warp multiplies in one step; of columns 16 are read at once where there are as many.
template <int Down, int Across>
struct Fragments {
  static constexpr int kColumnsAtOnce = Across == 1 ? 1 : 2;
  uint32_t rows[Down][4], columns[Across / kColumnsAtOnce][2 * kColumnsAtOnce];

  __device__ __forceinline__ const uint32_t (&of_column(int j) const)[2] {
    return *reinterpret_cast<const uint32_t (*)[2]>(&columns[j / kColumnsAtOnce][j % kColumnsAtOnce * 2]);
  }
};

// How many stages a chunk has: of integers there is one.
template <class T, int Depth>
inline constexpr int kChunkStages = std::is_integral_v<T> ? INT32_MAX : int(kTensorChunk) / Depth;

// Behind a chunk. The registers are full: the total of the chunks before waits in memory, each thread's own.
template <class Tile, int Down, int Across>
__device__ __forceinline__ void add_to_total(const TensorProduct& product, float (&sums)[Down][Across][4], bool first,
                                             bool last) {
  float4* const totals = product.totals + int64_t(blockIdx.x) * (Down * Across * Tile::kMultiplying) + threadIdx.x;
  if (!first) {
#pragma unroll
    for (int i = 0; i < Down * Across; i++) {
      float (&sum)[4] = sums[i / Across][i % Across];
      const float4 total = totals[i * Tile::kMultiplying];
      sum[0] = total.x + sum[0], sum[1] = total.y + sum[1], sum[2] = total.z + sum[2], sum[3] = total.w + sum[3];
    }
  }
  if (last) return;
#pragma unroll
  for (int i = 0; i < Down * Across; i++) {
    const float (&sum)[4] = sums[i / Across][i % Across];
    totals[i * Tile::kMultiplying] = {sum[0], sum[1], sum[2], sum[3]};
  }
}

// 16 rows of a warp's sums to shared memory.
template <class Tile, class Sum, int Across>
__device__ __forceinline__ void stage_rows(Sum* staged, const Sum (&sums)[Across][4]) {
  const int lane = int(threadIdx.x % 32);
#pragma unroll
  for (int j = 0; j < Across * 4; j++)
    staged[(lane / 4 + j / 2 % 2 * 8) * Tile::kOutStride + j / 4 * 8 + lane % 4 * 2 + j % 2] = sums[j / 4][j % 4];
}

// 16 rows of a warp's sums, staged in shared memory, to the result from (row, column) on: four neighbours of a row each
// lane where these are vectors, else neighbouring lanes store neighbours in memory, one by one.
template <class Out, class Tile, class Sum>
__device__ __forceinline__ void store_rows(const TensorProduct& product, unsigned batch, int64_t row, int64_t column,
                                           const Sum* staged) {
  constexpr int kVectors = Tile::kWarpColumns / 4;
  const int lane = int(threadIdx.x % 32);
  const int rows = int(product.height - row < 16 ? product.height - row : 16);
  const int columns = int(product.width - column < Tile::kWarpColumns ? product.width - column : Tile::kWarpColumns);
  if (product.vectors) {
#pragma unroll 1
    for (int at = lane; at < 16 * kVectors; at += 32) {
      const int i = at / kVectors, j = at % kVectors * 4;
      if (i >= rows) break;
      if (j < columns)
        store_neighbours<Out>(product.args, batch, row + i, column + j,
                              *reinterpret_cast<const AlignedVector<Sum, 4>*>(staged + i * Tile::kOutStride + j));
    }
    return;
  }
#pragma unroll 4
  for (int at = lane; at < 16 * Tile::kWarpColumns; at += 32) {
    const int i = product.transposed ? at % 16 : at / Tile::kWarpColumns;
    const int j = product.transposed ? at / 16 : at % Tile::kWarpColumns;
    if (i >= rows || j >= columns) continue;
    const Sum sum = staged[i * Tile::kOutStride + j];
    if (product.transposed) store_product<Out>(product.args, batch, column + j, row + i, sum);
    else store_product<Out>(product.args, batch, row + i, column + j, sum);
  }
}

// A warp's sums to the result, through the shared memory of the stages.
template <class T, class Tile, class Sum, int Down, int Across>
__device__ __forceinline__ void store_sums(const TensorProduct& product, const TensorTileCoord& coord, void* shared,
                                           const Sum (&sums)[Down][Across][4]) {
  const int warp = int(threadIdx.x / 32);
  const int64_t first_row = int64_t(coord.row) * Tile::kRows + warp / Tile::kWarpsAcross * Tile::kWarpRows;
  const int64_t column = int64_t(coord.column) * Tile::kColumns + warp % Tile::kWarpsAcross * Tile::kWarpColumns;
  Sum* const out = static_cast<Sum*>(shared) + warp * (16 * Tile::kOutStride);
#pragma unroll 1
  for (int row_tile = 0; row_tile < Down; row_tile++) {
#pragma unroll
    for (int i = 0; i < Down; i++) {
      if (i != row_tile) continue;  // registers have no index at run time
      stage_rows<Tile>(out, sums[i]);
    }
    __syncwarp();
    const int64_t row = first_row + row_tile * 16;
    if (product.args.output_dtype == product.args.dtype) store_rows<T, Tile>(product, coord.batch, row, column, out);
    else store_rows<Sum, Tile>(product, coord.batch, row, column, out);
    __syncwarp();
  }
}

template <class T, class Tile, bool RowsAlongK, bool ColumnsAlongK>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    multiply_fragments(const __grid_constant__ TensorProduct product) {
  using Sum = ProductOf<T>;
  using Rows = SharedTile<T, Tile::kRows, Tile::kDepthBytes, RowsAlongK, 0, Tile::kThreads>;
  using Columns = SharedTile<T, Tile::kColumns, Tile::kDepthBytes, ColumnsAlongK, 0, Tile::kThreads>;
  using Read = Fragments<Tile::kWarpRows / 16, Tile::kWarpColumns / 8>;
  constexpr int kDown = Tile::kWarpRows / 16, kAcross = Tile::kWarpColumns / 8;
  constexpr int kStages = Tile::kStages, kSteps = Tile::kDepthBytes / 32;
  constexpr int kChunk = kChunkStages<T, Rows::kDepth>;
  char* const shared = reinterpret_cast<char*>(memory);
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
  const int warp_row = warp / Tile::kWarpsAcross * Tile::kWarpRows;
  const int warp_column = warp % Tile::kWarpsAcross * Tile::kWarpColumns;

  for (unsigned tile = blockIdx.x; tile < product.tiles; tile += gridDim.x) {
    const TensorTileCoord coord(product, tile);
    const int64_t first_row = int64_t(coord.row) * Tile::kRows, first_column = int64_t(coord.column) * Tile::kColumns;
    const int stages = int((coord.depth + Rows::kDepth - 1) / Rows::kDepth);
    typename Rows::Loader rows(product.rows, coord.factors, first_row, product.height, coord.begin, coord.depth);
    typename Columns::Loader columns(product.columns, coord.factors, first_column, product.width, coord.begin,
                                     coord.depth);
    const int whole = rows.whole < columns.whole ? rows.whole : columns.whole;
    const auto load = [&](int stage) {
      char* const to = shared + unsigned(stage) % kStages * Tile::kStageBytes;
      if (stage < whole) {
        rows.load_whole(to);
        columns.load_whole(to + Rows::kBytes);
      } else if (stage < stages) {
        const int64_t left = coord.depth - int64_t(stage) * Rows::kDepth;
        rows.load(to, left);
        columns.load(to + Rows::kBytes, left);
      }
      cp_async_commit();
    };
#pragma unroll 1
    for (int stage = 0; stage < kStages - 1; stage++) load(stage);

    Sum sums[kDown][kAcross][4];
    int stage = 0;
    for (int chunk = 0;; chunk++) {
#pragma unroll
      for (int i = 0; i < kDown * kAcross * 4; i++) sums[i / 4 / kAcross][i / 4 % kAcross][i % 4] = 0;
      const int end = stages - stage < kChunk ? stages : stage + kChunk;
#pragma unroll 1
      for (; stage < end; stage++) {
        cp_async_wait<kStages - 2>();
        __syncthreads();  // this stage has arrived for all, and no thread reads the one before, which is overwritten now
        const char* const at = shared + unsigned(stage) % kStages * Tile::kStageBytes;
        Read fragments[2];
        const auto read = [&](int step) {
          Read& to = fragments[step % 2];
#pragma unroll
          for (int i = 0; i < kDown; i++) Rows::template fragment<false>(to.rows[i], at, warp_row + i * 16, step, lane);
#pragma unroll
          for (int j = 0; j < kAcross; j += Read::kColumnsAtOnce)
            Columns::template fragment<true>(to.columns[j / Read::kColumnsAtOnce], at + Rows::kBytes,
                                             warp_column + j * 8, step, lane);
        };
        read(0);
        load(stage + kStages - 1);  // while the first fragments are in flight
#pragma unroll
        for (int step = 0; step < kSteps; step++) {
          if (step + 1 < kSteps) read(step + 1);
          const Read& from = fragments[step % 2];
#pragma unroll
          for (int i = 0; i < kDown; i++)
#pragma unroll
            for (int j = 0; j < kAcross; j++) mma_sync<T>(sums[i][j], from.rows[i], from.of_column(j));
        }
      }
      if constexpr (!std::is_integral_v<T>) add_to_total<Tile>(product, sums, chunk == 0, stage == stages);
      if (stage == stages) break;
    }

    __syncthreads();  // no thread reads the stages any more
    store_sums<T, Tile>(product, coord, shared, sums);
    __syncthreads();  // before the next tile's stages
  }
}

}  // namespace torch_reductions::cuda::matmul
