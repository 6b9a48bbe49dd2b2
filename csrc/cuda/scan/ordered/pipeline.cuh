// What a block does with its tiles, the same for rows, columns and recurrences.
//
// A kernel provides: coord(number), a tile's coordinate; use(n), which selects the part of shared memory that the
// following calls work in, by default the first; issue_load(coord), which begins to copy a tile there;
// load_hidden(coord), which loads what the mask hides, while the copies come; up(coord, hidden), which reads the tile
// and stores the totals of its warps; down(coord, state), which writes the results. Where tiles are carried from one to
// the next, publish(coord, tag) publishes a tile's total, and look_back(coord, tag) collects what stands before one.
#pragma once
#include "../../primitives/async.cuh"
#include "../../primitives/fast_div.cuh"
#include "carry.cuh"
#include "lines.cuh"

namespace torch_reductions::cuda::scan {

// Tiles that a block has in shared memory at a time, where they are carried.
inline constexpr int kBuffers = 2;

// Tile `tile` of a group of lines.
struct TileCoord {
  unsigned group, tile;
};
// Neighbouring groups run at the same time.
__device__ __forceinline__ TileCoord tile_coord(const FastDiv& groups, unsigned number) {
  const unsigned tile = groups.div(number);
  return {number - tile * groups.divisor, tile};
}

// Do blocks take tile after tile (scan_carried) where more are carried than are resident? Such a kernel has its code
// twice and takes twice as long to compile, so it is kept for what is scanned most: sums, and products and extremes of
// float32. What is dear to combine was measured to be slower so.
template <class S>
inline constexpr bool kTakesSeveral = [] {
  using Op = typename S::Op;
  using T = typename S::Element;
  if constexpr (IsIndexed<typename S::Value>::value) return std::is_same_v<T, float> && sizeof(S::Value::index) == 4;
  else if constexpr (!kIsNone<Op, Prod>) return std::is_same_v<T, float>;
  else return !kIsDear<Op> && (!std::is_integral_v<T> || sizeof(typename ResultOf<S>::type) == 8);
}();

// One tile per block. joined: its warps share a line; carried: lines have several tiles. A block waits only for blocks
// of a lower index, and blocks start in that order; of the ticket it needs the tag alone, long after it asked for it.
template <class Tiles>
__device__ __forceinline__ void scan_one(Tiles& tiles, bool joined, bool carried, const TileState& tile_state) {
  __shared__ unsigned tag;
  const uint64_t answer = carried && threadIdx.x == 0 ? request_tickets(tile_state, 1) : 0;
  const TileCoord coord = tiles.coord(blockIdx.x);
  tiles.issue_load(coord);
  cp_async_commit();
  const auto hidden = tiles.load_hidden(coord);
  cp_async_wait<0>();
  __syncwarp();
  const auto state = tiles.up(coord, hidden);
  if (carried && threadIdx.x == 0) tag = tickets(tile_state, answer, 1, gridDim.x - 1).tag;
  if (joined || carried) __syncthreads();
  if (carried) {
    tiles.publish(coord, tag);
    tiles.look_back(coord, tag);
    __syncthreads();
  }
  tiles.down(coord, state);
}

// Tiles each of which needs the totals of those before it. A block publishes the total of a tile before it looks back
// for the tile before that: what it reads has mostly been published long before. A block draws a tile's number shortly
// before it issues the tile's loads, so whoever waits for that tile waits for a block that is already running.
template <class Tiles>
__device__ __forceinline__ void scan_carried(Tiles& tiles, const TileState& tile_state, unsigned work) {
  __shared__ unsigned drawn[kBuffers], tag_of_launch;  // tile n of this block is number drawn[n % kBuffers]
  // A block draws kBuffers numbers at the start and one more after each tile.
  const unsigned last = work + kBuffers * gridDim.x - 1;
  if (threadIdx.x == 0) {
    const Ticket first = draw_tickets(tile_state, kBuffers, last);
    for (int i = 0; i < kBuffers; i++) drawn[i] = first.number + i;
    tag_of_launch = first.tag;
  }
  __syncthreads();
  const unsigned tag = tag_of_launch;
  struct Tile {
    unsigned number;
    TileCoord coord;
  } tile[kBuffers];
  typename Tiles::State state;
  for (unsigned n = 0;; n++) {  // tile n is read, and the one before it scanned
    // Iteration 0 fills all buffers, iteration 1 none (no tile has been scanned yet), later ones the buffer just freed.
    const unsigned end = n < 2 ? kBuffers : n + kBuffers - 1;
#pragma unroll 1
    for (unsigned newest = n < 2 ? n * kBuffers : end - 1; newest < end; newest++) {
      const unsigned number = drawn[newest % kBuffers];
#pragma unroll
      for (int k = 0; k + 1 < kBuffers; k++) tile[k] = tile[k + 1];
      tile[kBuffers - 1] = {number, tiles.coord(number)};
      tiles.use(newest);
      if (number < work) tiles.issue_load(tile[kBuffers - 1].coord);
      cp_async_commit();
      // The tile that some block draws one round of all blocks later; those of the first round are loaded at once.
      if constexpr (requires { tiles.prefetch(tile[0].coord); })
        if (number >= gridDim.x && work - number > gridDim.x) tiles.prefetch(tiles.coord(number + gridDim.x));
    }
    if (tile[0].number >= work) return;
    const Tile read = n == 0 ? tile[0] : tile[1];
    auto next = state;
    if (read.number < work) {
      const auto hidden = tiles.load_hidden(read.coord);
      if (n == 0) cp_async_wait<kBuffers - 1>();
      else cp_async_wait<kBuffers - 2>();
      __syncwarp();
      tiles.use(n);
      next = tiles.up(read.coord, hidden);
      __syncthreads();
      tiles.publish(read.coord, tag);
    }
    if (n > 0) {
      tiles.use(n - 1);
      tiles.look_back(tile[0].coord, tag);
      __syncthreads();
      if (threadIdx.x == 0) drawn[(n - 1) % kBuffers] = draw_tickets(tile_state, 1, last).number;
      tiles.down(tile[0].coord, state);
      __syncthreads();
    }
    state = next;
  }
}

}  // namespace torch_reductions::cuda::scan
