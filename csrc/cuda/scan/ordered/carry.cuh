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
inline constexpr int kLaneRadix = 3;  // where a lane looks back: it has registers for seven totals

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
};

// Totals that follow one another on a level.
struct Totals {
  uint64_t* words;  // of the first one
  int64_t step;     // from one's words to the next one's
  Awaited awaited;

  __device__ __forceinline__ const uint64_t* word(int i) const { return words + i * step; }
};

// All totals of a line.
template <int Radix, class Value>
struct LineTotals {
  const Carry<Radix>& carry;
  unsigned line, tag;

  __device__ __forceinline__ int levels() const { return carry.levels; }
  __device__ __forceinline__ Totals totals(int level, unsigned first) const {
    const int64_t place = (carry.first[level] + first) * carry.lines + line;
    return {carry.tile_state.words + place * kTaggedWords<Value>, int64_t(carry.lines) * kTaggedWords<Value>, {tag}};
  }
  // If it has a word: the last tiles of a line may not fill a group of the level above.
  __device__ __forceinline__ void publish_total(int level, unsigned index, Value total) const {
    if (level < carry.levels && index < carry.tiles >> (Radix * level)) publish(totals(level, index).words, total, tag);
  }
};

// Publishes a tile's total. The last of 2^Radix tiles publishes theirs too, the last of as many groups theirs, long
// before a look-back needs them. fold(totals, last): the total of a group, given that of its last member.
template <int Radix, auto fold, class Line, class Value>
__device__ __forceinline__ int publish_totals(const Line& line, unsigned tile, Value total, bool publishes) {
  constexpr unsigned kLast = (1 << Radix) - 1;
  int level = 0;
  if (publishes) line.publish_total(0, tile, total);
  for (; level + 1 < line.levels() && (tile & kLast) == kLast; level++, tile >>= Radix) {
    total = fold(line.totals(level, tile - kLast), total);
    if (publishes) line.publish_total(level + 1, tile >> Radix, total);
  }
  return level;
}

// By one lane: keep(k, block) for the blocks of the first d < 8 totals, one per set bit k of d. All are loaded at the
// same time; in halves, where the words of seven would not fit into the registers. In place of those that are not
// needed, the first one again.
template <class Op, bool Halves, class Keep>
__device__ __forceinline__ void await_by_lane(const Totals& totals, int d, Keep keep) {
  using Value = typename Op::Value;
  const auto keep_lower = [&](const Value* v) {
    if (d & 2) keep(1, Op::combine(v[0], v[1]));
    if (d & 1) keep(0, d & 2 ? v[2] : v[0]);
  };
  const auto upper = [&](int i) { return totals.word(d & 4 ? i : 0); };
  const auto lower = [&](int i) { return totals.word(i < (d & 3) ? (d & 4) + i : 0); };
  if constexpr (Halves) {
    Value four[4], three[3];
    if (d & 4) await(four, upper, totals.awaited), keep(2, tree<Op, 4>(four));
    if (d & 3) await(three, lower, totals.awaited), keep_lower(three);
  } else if (d != 0) {
    Value all[7];
#pragma unroll
    for (Value& v : all) v = Value{};  // otherwise nvcc 13.0 spills registers of scan_columns
    await(all, [&](int i) { return i < 4 ? upper(i) : lower(i - 4); }, totals.awaited);
    if (d & 4) keep(2, tree<Op, 4>(all));
    keep_lower(all + 4);
  }
}
template <class Op, bool Halves>
__device__ __forceinline__ typename Op::Value total_by_lane(const Totals& totals, typename Op::Value last) {
  typename Op::Value block[3];
  await_by_lane<Op, Halves>(totals, 7, [&](int k, typename Op::Value v) { block[k] = v; });
  return Op::combine(block[2], Op::combine(block[1], Op::combine(block[0], last)));
}

// The look-back of a tile, one lane per line and one warp per level: kept[k][column] becomes the block of bit k of the
// tile's number, where that is set; otherwise, if Fills, the identity. exists: is there such a line?
template <class Op, bool Halves, bool Fills, class Line, class Kept>
__device__ __forceinline__ void look_back_by_lane(const Line& line, unsigned tile, bool exists, Kept& kept,
                                                  int column) {
  for (int level = threadIdx.x >> 5; level < line.levels(); level += blockDim.x >> 5) {
    const unsigned at = tile >> (kLaneRadix * level);
    auto* const to = &kept[kLaneRadix * level];
    if constexpr (Fills) {
#pragma unroll
      for (int k = 0; k < kLaneRadix; k++) to[k][column] = Op::identity();
    }
    await_by_lane<Op, Halves>(line.totals(level, at & ~7u), exists ? at & 7 : 0,
                              [&](int k, typename Op::Value block) { to[k][column] = block; });
  }
}

// By a warp: lane i, modulo 2^Radix, has total i of the first n, or `other`.
template <int Radix, class Value>
__device__ __forceinline__ Value await_by_warp(const Totals& totals, int n, Value other) {
  const int i = threadIdx.x & ((1 << Radix) - 1);
  Value v[1] = {other};
  if (n > 0) {
    const uint64_t* const word = totals.word(i < n ? i : 0);
    const auto there = [&] { return arrived(v, [&](int) { return word; }, totals.awaited); };
    for (int attempts = 0; !__all_sync(kFullWarp, there());) pause(++attempts);
  }
  return i < n ? v[0] : other;
}
template <class Op, int Radix>
__device__ __forceinline__ typename Op::Value total_by_warp(const Totals& totals, typename Op::Value last) {
  typename Op::Value v = await_by_warp<Radix>(totals, (1 << Radix) - 1, last);
#pragma unroll
  for (int k = 0; k < Radix; k++) v = xor_step<Op>(v, k, threadIdx.x & 31);
  return v;
}

// The same of one line, one lane per total.
template <class Op, int Radix, class Line>
__device__ __forceinline__ void look_back_by_warp(const Line& line, unsigned tile, typename Op::Value* kept) {
  const int lane = threadIdx.x & 31;
  for (int level = threadIdx.x >> 5; level < line.levels(); level += blockDim.x >> 5) {
    const unsigned at = tile >> (Radix * level);
    const int d = at & ((1 << Radix) - 1);
    typename Op::Value digit[Radix];
    lane_digits<Op>(await_by_warp<Radix>(line.totals(level, at - d), d, Op::identity()), d, digit, lane);
    if (lane == d)
#pragma unroll
      for (int k = 0; k < Radix; k++) kept[Radix * level + k] = digit[k];
  }
}

// The same by groups of 2^kLaneRadix lanes, so that a warp has four levels.
template <class Op, class Line, class Kept>
__device__ __forceinline__ void look_back_by_groups(const Line& line, unsigned tile, Kept& kept) {
  if (int(threadIdx.x >> 5) * 4 >= line.levels()) return;
  const int lane = threadIdx.x & 31, level = threadIdx.x >> kLaneRadix, i = lane & 7;
  const unsigned at = level < line.levels() ? tile >> (kLaneRadix * level) : 0;
  const int d = at & 7;
  const Totals totals = line.totals(level, at - d);
  typename Op::Value one[1]{};
  if (i < d) await(one, [&](int) { return totals.word(i); }, totals.awaited);
  __syncwarp();
  const typename Op::Value two = Op::combine(one[0], shuffle(one[0], (lane + 1) & 31));
  const typename Op::Value four = Op::combine(two, shuffle(two, (lane + 2) & 31));
  auto* const to = &kept[kLaneRadix * level];
  if (i == 0 && d & 4) to[2][0] = four;
  if (i == (d & 4) && d & 2) to[1][0] = two;
  if (i == (d & 6) && d & 1) to[0][0] = one[0];
}

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
