// What comes before a tile: look-back over totals, never over another tile's carry, so that no tile waits for a chain.
//
// Read the number t of a tile in base 2^Radix. Level 0 holds the totals of tiles, level 1 the totals of 2^Radix tiles
// each, which the last of them publishes as soon as they have arrived, and so on. At each level t's digit d says that d
// totals precede it. They form one block per set bit of d; the blocks of all levels are folded left to right, highest
// level first.
#pragma once
#include "../../primitives/elements.cuh"
#include "../../primitives/grid.cuh"

namespace torch_reductions::cuda::scan {

inline constexpr int kMaxLevels = 8;

// The tiles of `lines` lines. The words of a level's totals stand behind those of the level below, lines side by side.
template <int Radix>
struct Carry {
  TileState tile_state;
  unsigned tiles, lines;          // tiles of a line; 1: there is no carry
  int levels;                     // that a tile looks at
  int64_t first[kMaxLevels + 1];  // a level's first total, of each line

  // That a tile of a line of `tiles` looks at.
  static int levels_of(int64_t tiles) {
    int levels = 0;
    while ((tiles - 1) >> (Radix * levels) > 0) levels++;
    return levels;
  }
  // The totals of a line, on all levels.
  int64_t set(int64_t tiles_of_line, int64_t number_of_lines) {
    tiles = unsigned(tiles_of_line), lines = unsigned(number_of_lines), levels = levels_of(tiles_of_line);
    if (levels > kMaxLevels) fail("a line of too many tiles");
    for (int k = 0; k < levels; k++) first[k + 1] = first[k] + (tiles >> (Radix * k));
    return first[levels];
  }
  template <class Value>
  __device__ __forceinline__ uint64_t* word(int level, unsigned index, unsigned line) const {
    return tile_state.words + ((first[level] + index) * lines + line) * kTaggedWords<Value>;
  }
  // Publishes a total, if it has a word: the last tiles of a line may not fill a group of the level above.
  template <class Value>
  __device__ __forceinline__ void publish(int level, unsigned index, unsigned line, Value total, unsigned tag) const {
    if (level < levels && index < tiles >> (Radix * level)) cuda::publish(word<Value>(level, index, line), total, tag);
  }
};

// A number and the tag of the launch, from one atomic: blocks get their numbers in the order of their requests, so that
// a block that waits for a lower number waits for one that runs. The block that gets the last number advances the state
// to the next launch; all others have their tag by then.
struct Ticket {
  unsigned number, tag;
};
// Requests `count` consecutive numbers; nothing waits before the answer is used.
__device__ __forceinline__ uint64_t request_tickets(const TileState& tile_state, unsigned count) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(tile_state.launch), uint64_t(count) << 32);
}
// The first of them.
__device__ __forceinline__ Ticket tickets(const TileState& tile_state, uint64_t answer, unsigned count, unsigned last) {
  const unsigned tag = launch_tag(answer), number = unsigned(answer >> 32);
  if (number + count - 1 == last) store_relaxed(tile_state.launch, tag);
  return {number, tag};
}
__device__ __forceinline__ Ticket draw_tickets(const TileState& tile_state, unsigned count, unsigned last) {
  return tickets(tile_state, request_tickets(tile_state, count), count, last);
}

// The fold of v and of the blocks of t's binary digits, from the highest of `bits` down: kept[k * pitch], or the
// identity. bits: a multiple of Unroll.
template <class Op, int Unroll>
__device__ __forceinline__ typename Op::Value fold_kept(const typename Op::Value* kept, int bits, int pitch, unsigned t,
                                                        typename Op::Value v) {
  for (int k = bits - 1; k >= 0; k -= Unroll)
#pragma unroll
    for (int i = 0; i < Unroll; i++)
      if (!kIsDear<Op> || t >> (k - i) & 1) v = Op::combine(v, kept[(k - i) * pitch]);
  return v;
}

// The same of t + 1, given the value `own` that stands at t: a step of the binary counter. own becomes the block that
// ends there.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_next(const typename Op::Value* kept, int bits, int pitch, unsigned t,
                                                        typename Op::Value& own, typename Op::Value v) {
  int k = 0;
  for (; k < bits && (t >> k & 1); k++) own = Op::combine(kept[k * pitch], own);
  for (int j = bits - 1; j > k; j--)
    if (!kIsDear<Op> || t >> j & 1) v = Op::combine(v, kept[j * pitch]);
  return Op::combine(v, own);
}

}  // namespace torch_reductions::cuda::scan
