// Changes: one pass: a block publishes its tile's total and reads those of the tiles before it, 32 at a time, back to
//          one whose inclusive prefix is known: from that it computes its own prefix, which it publishes in turn.
// Costs:   a few tagged words per tile, which other blocks wait for; the later the blocks are, the longer the chain.
// Gains:   2 accesses per element, as for a copy: each is read once and its result written once, in one launch. On
//          an H100 the ticket and the wait cost more than that saves: two_level is faster (docs/ladder.md, Book and
//          machine); ordered, whose threads hold more elements, shows what one pass can do.
// Order:   rounds of log2 steps in a tile; how the totals before it are grouped depends on which blocks were first, so
//          floats may differ from run to run.
// Needs:   compute capability 7.5; 128 to 1024 threads per block, as for scan_then_fan. A block's tile is its ticket: a
//          block that waits, waits for blocks that have begun.
// See:     Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back (2016).
#include "../primitives/grid.cuh"
#include "textbook.cuh"

namespace torch_reductions::cuda::scan {
namespace {

constexpr int kEach = 4;  // elements of a thread, a block's width apart

// A block's tile and the tag of its launch, from one atomic: the upper half of the word counts the blocks that have
// begun, the lower half is the number of the launch. The last one to draw advances the state to the next launch: all
// have their tag.
struct Drawn {
  unsigned tile, tag;
};
__device__ Drawn draw_tile(const TileState& tile_state) {
  const uint64_t word = atomicAdd(reinterpret_cast<unsigned long long*>(tile_state.launch), 1ull << 32);
  const unsigned tile = unsigned(word >> 32), tag = launch_tag(word);
  if (tile == gridDim.x - 1) store_relaxed(tile_state.launch, tag);
  return {tile, tag};
}

// What tiles publish, tile t of all rows at word t: first the total of its elements, then its inclusive prefix, the
// fold of the row up to the tile's end.
template <class A>
struct ScanTileState {
  uint64_t* words;
  unsigned tag;

  __device__ uint64_t* aggregate(int64_t tile) const { return words + tile * 2 * kTaggedWords<A>; }
  __device__ uint64_t* inclusive(int64_t tile) const { return aggregate(tile) + kTaggedWords<A>; }
  __device__ bool read(A& value, const uint64_t* word) const {
    A values[1];
    const bool there = arrived(values, [&](int) { return word; }, Awaited{tag, ~0u});
    value = values[0];
    return there;
  }
};

// The fold of the `before` tiles of its row that stand before a tile: a warp looks back, one tile per lane.
template <class Op, class A = typename Op::Value>
__device__ A look_back(const ScanTileState<A>& states, int64_t tile, int64_t before) {
  const int lane = threadIdx.x % 32;
  A base = Op::identity();
  for (int back = 32;; back += 32) {
    const bool in_row = before - back + lane >= 0;
    const int64_t other = in_row ? tile - back + lane : tile - 1;
    A total, inclusive;
    int nearest;  // the last lane whose tile has its inclusive prefix; where the row begins, an empty one
    for (int attempts = 0;; pause(++attempts)) {
      const bool has_total = states.read(total, states.aggregate(other));
      const bool has_all = states.read(inclusive, states.inclusive(other)) || !in_row;
      const unsigned lanes = __ballot_sync(kFullWarp, has_all);
      nearest = lanes == 0 ? -1 : highest_bit(lanes);
      if (__all_sync(kFullWarp, has_total || lane <= nearest)) break;
    }
    const A value = lane > nearest ? total : lane == nearest && in_row ? inclusive : Op::identity();
    base = Op::combine(fold_warp<Op>(value), base);
    if (nearest >= 0) return base;
  }
}

template <class Op, class T, class A = typename Op::Value>
__global__ void look_back_kernel(ScanRows<Op, T> rows, TileState tile_state, unsigned tiles) {
  __shared__ Drawn drawn;
  __shared__ A before_tile;
  const int tid = threadIdx.x;
  int64_t number = blockIdx.x;
  if (tiles > 1) {
    if (tid == 0) drawn = draw_tile(tile_state);
    __syncthreads();
    number = drawn.tile;
  }
  const int64_t row = number / tiles, tile = number % tiles, begin = tile * kEach * blockDim.x + tid;

  const BlockScan<WarpScan<Op>> block;
  A values[kEach], total = Op::identity();
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    A round_total;
    values[i] = Op::combine(total, block.scan(rows.load(row, begin + i * blockDim.x), round_total));
    total = Op::combine(total, round_total);
  }

  A base = Op::identity();
  if (tiles > 1) {
    if (tid < 32) {
      const ScanTileState<A> states{tile_state.words, drawn.tag};
      if (tile > 0) {
        if (tid == 0) publish(states.aggregate(number), total, drawn.tag);
        base = look_back<Op>(states, number, tile);
      }
      if (tid == 0) {
        publish(states.inclusive(number), Op::combine(base, total), drawn.tag);
        before_tile = base;
      }
    }
    __syncthreads();
    base = before_tile;
  }
#pragma unroll
  for (int i = 0; i < kEach; i++) rows.store(row, begin + i * blockDim.x, Op::combine(base, values[i]));
}

}  // namespace

void look_back(const ScanArgs& args, Context& context, int threads) {
  with_rows(args, context, [&]<class Op, class T>(const ScanRows<Op, T>& rows) {
    const RowConfig config(args.length, threads, kEach);
    const int64_t words = args.outer * config.parts * 2 * kTaggedWords<typename Op::Value>;
    const TileState tile_state = config.parts > 1 ? context.tile_state(words) : TileState{};
    launch_parts(args.outer, config.parts, [&](int64_t row, int64_t blocks) {
      launch(look_back_kernel<Op, T>, blocks, config.threads, 0, context.stream, rows.from(row), tile_state,
             config.parts);
    });
  });
}

}  // namespace torch_reductions::cuda::scan
