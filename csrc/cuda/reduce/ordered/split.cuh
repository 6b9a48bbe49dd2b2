// A line (the elements of one result) that several blocks share: each publishes the total of a tile of it, the block of
// the ragged tile its digits, and more blocks, the last ones of the grid, wait for them and fold them.
// Local:   read_lines (220 bytes): off the hot path; the kernels' registers are chosen for the workers.
#pragma once
#include "../../primitives/grid.cuh"
#include "output.cuh"

namespace torch_reductions::cuda::reduce {

// How many neighbouring tiles a lane, and so a warp, of the readers folds at once.
inline constexpr int kLogLaneReads = 3, kLogWarpReads = 5 + kLogLaneReads;
inline constexpr int kLaneReads = 1 << kLogLaneReads, kWarpReads = 1 << kLogWarpReads;
inline constexpr int kMaxDigits = 40;

struct Split {
  int64_t length;  // of a line
  int log_tile;
  unsigned lines, tiles;  // the tiles of a line, the ragged one included
  TileState tile_state;   // where there are several: [line][whole tile, then digit of the ragged one]

  // The lines that the readers' blocks take in turn: one warp per line, or one block per line.
  HOST_DEVICE bool by_warps() const { return length >> log_tile <= kWarpReads; }
  HOST_DEVICE unsigned readers(unsigned threads) const {
    const unsigned warps = threads / 32;
    return tiles == 1 ? 0 : by_warps() ? (lines + warps - 1) / warps : lines;
  }
  HOST_DEVICE int64_t words_of_line() const { return (length >> log_tile) + log_tile; }  // for a value of one word
};

template <class Value>
__device__ __forceinline__ uint64_t* line_words(const Split& split, int64_t line) {
  return split.tile_state.words + line * split.words_of_line() * kTaggedWords<Value>;
}

template <class Value>
__device__ __forceinline__ void publish_total(const Split& split, int64_t line, int64_t tile, const Value& total,
                                              unsigned tag) {
  publish(line_words<Value>(split, line) + tile * kTaggedWords<Value>, total, tag);
}
// Digit k of the ragged tile.
template <class Value>
__device__ __forceinline__ void publish_digit(const Split& split, int64_t line, int k, const Value& digit,
                                              unsigned tag) {
  publish_total(split, line, (split.length >> split.log_tile) + k, digit, tag);
}

// base ∘ the digits of n, from the highest down; digit k stands at digit[k * pitch].
template <class Op>
__device__ __forceinline__ typename Op::Value fold_set_digits(typename Op::Value base, const typename Op::Value* digit,
                                                              uint64_t n, int pitch = 1) {
  while (n != 0) {
    const int k = highest_bit(n);
    base = Op::combine(base, digit[k * pitch]);
    n ^= uint64_t(1) << k;
  }
  return base;
}

// Block number `index` of 2^first values joins the digits that wait: the binary counter.
template <class Op>
__device__ __forceinline__ void count_block(typename Op::Value* digit, int first, int64_t index,
                                            typename Op::Value block) {
  int k = first;
  for (; index >> (k - first) & 1; k++) block = Op::combine(digit[k], block);
  digit[k] = block;
}

// The n <= kWarpReads totals from `words` on: x[i] is number lane * kLaneReads + i, or the identity past the end.
// Returns whether the whole warp has all of them.
template <class Op>
__device__ __forceinline__ bool totals_arrived(typename Op::Value (&x)[kLaneReads], const uint64_t* words, int n,
                                               Awaited awaited, int lane) {
  const int first = lane * kLaneReads;
  const bool all = arrived(
      x, [&](int i) { return words + (first + i < n ? first + i : n - 1) * kTaggedWords<typename Op::Value>; },
      awaited);
#pragma unroll
  for (int i = 0; i < kLaneReads; i++)
    if (first + i >= n) x[i] = Op::identity();
  return __all_sync(kFullWarp, all);
}

// The digits below kLogLaneReads of n values of which kLaneReads stand in each lane; valid in the lane that n ends in.
template <class Op>
__device__ __forceinline__ void digits_in_lane(const typename Op::Value (&x)[kLaneReads], int n,
                                               typename Op::Value (&digit)[kLogLaneReads]) {
  static_for<kLogLaneReads>([&](auto k) {
    constexpr int Size = 1 << k.value;
    digit[k.value] = tree<Op, Size>(x);
#pragma unroll
    for (int first = 2 * Size; first < kLaneReads; first += 2 * Size) {
      const typename Op::Value other = tree<Op, Size>(x + first);  // not behind the condition: x would be indexed
      if ((n & (kLaneReads - 1)) >> (k.value + 1) == first / (2 * Size)) digit[k.value] = other;
    }
  });
}

// base ∘ the ragged tile's digits, one per lane, `pitch` words apart.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_ragged(typename Op::Value base, const uint64_t* digits, int log_tile,
                                                          int64_t length, Awaited awaited, int lane,
                                                          int64_t pitch = kTaggedWords<typename Op::Value>) {
  unsigned set = unsigned(length) & ((1u << log_tile) - 1);
  if (set == 0) return base;
  typename Op::Value mine[1];
  const int from = lane < log_tile && set >> lane & 1 ? lane : highest_bit(set);  // any digit that is there
  while (!arrived(mine, [&](int) { return digits + from * pitch; }, awaited)) {
  }
  __syncwarp();
  for (; set != 0; set ^= 1u << highest_bit(set)) base = Op::combine(base, shuffle(mine[0], highest_bit(set)));
  return base;
}

// The fold of a line of at most kWarpReads whole tiles, by a warp.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_line_by_warp(const uint64_t* words, int64_t length, int log_tile,
                                                                Awaited awaited) {
  using Value = typename Op::Value;
  const int lane = threadIdx.x & 31, n = int(length >> log_tile), lanes = n >> kLogLaneReads;
  Value v = Op::identity();
  if (n > 0) {
    Value x[kLaneReads], digit[5], low[kLogLaneReads];
    for (int attempts = 0;; pause(attempts++)) {
      const bool all = totals_arrived<Op>(x, words, n, awaited, lane);
      v = lane_digits<Op, 5>(tree<Op, kLaneReads>(x), lanes, digit, lane);
      v = fold_digits<Op>(lanes == 32 ? v : Op::identity(), digit);
      digits_in_lane<Op>(x, n, low);
#pragma unroll
      for (int k = kLogLaneReads - 1; k >= 0; k--)
        if (n >> k & 1) v = Op::combine(v, low[k]);
      v = shuffle(v, lanes & 31);
      if (all) break;
    }
  }
  return fold_ragged<Op>(v, words + n * kTaggedWords<Value>, log_tile, length, awaited, lane);
}

// The same of any number of tiles, by a block of 2^log_warps warps at least; valid in its first warp.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_line_by_block(const uint64_t* words, int64_t length, int log_tile,
                                                                 Awaited awaited, int log_warps) {
  using Value = typename Op::Value;
  __shared__ Value total[32], digit[kMaxDigits];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = 1 << log_warps,
            log_round = kLogWarpReads + log_warps;
  const int64_t tiles = length >> log_tile;
  const int64_t whole =
      awaited.mask == 0 && tiles >> log_round ? int64_t(1) << log_round : tiles;  // rehearse one round
  for (int64_t round = 0; round << log_round < whole; round++) {
    const int64_t first = (round << log_round) + warp * kWarpReads, left = whole - first;
    if (warp < warps && left > 0) {
      const int n = left < kWarpReads ? int(left) : kWarpReads, lanes = n >> kLogLaneReads;
      Value x[kLaneReads], steps[5], low[kLogLaneReads];
      for (int attempts = 0;; pause(attempts++)) {
        const bool all = totals_arrived<Op>(x, words + first * kTaggedWords<Value>, n, awaited, lane);
        const Value v = lane_digits<Op, 5>(tree<Op, kLaneReads>(x), lanes, steps, lane);
        if (lane == 0) total[warp] = v;
        if (lane == lanes) {  // of the ragged warp only
          digits_in_lane<Op>(x, n, low);
          static_for<kLogLaneReads>([&](auto k) { digit[k.value] = low[k.value]; });
          static_for<5>([&](auto k) { digit[kLogLaneReads + k.value] = steps[k.value]; });
        }
        if (all) break;
      }
    }
    __syncthreads();
    if (warp == 0) {
      const int64_t here = (whole - (round << log_round)) >> kLogWarpReads;
      const int m = here < warps ? int(here) : warps;  // whole warps of this round
      Value steps[5];
      Value v = lane_digits<Op, 5>(lane < m ? total[lane] : Op::identity(), m, steps, lane);
      if (m < warps) {
        if (lane == m)
          static_for<5>([&](auto k) {
            if (k.value < log_warps) digit[kLogWarpReads + k.value] = steps[k.value];
          });
      } else if (lane == 0) {  // a whole round
        count_block<Op>(digit, log_round, round, v);
      }
    }
    __syncthreads();
  }
  Value v = Op::identity();
  if (warp == 0) {
    v = fold_set_digits<Op>(v, digit, whole);
    v = fold_ragged<Op>(v, words + tiles * kTaggedWords<Value>, log_tile, length, awaited, lane);
  }
  __syncthreads();  // for the next call
  return v;
}

// Folds a line, and stores it. fold(awaited): the fold, valid in the thread that is `first`.
//
// Everything is done twice. The first time is a rehearsal that waits for nothing and folds whatever is there, while the
// tiles are still in flight: a kernel that starts cold fetches its instructions from memory, and without a rehearsal
// the reader would fetch them one after the other when the last total has come.
template <class Op, class Fold>
__device__ __forceinline__ void read_line(const Split& split, const Output& out, unsigned line, bool first, Fold fold) {
  const unsigned tag = launch_tag(launch_number(split.tile_state));
#pragma unroll 1
  for (Awaited awaited{tag, 0};; awaited.mask = ~0u) {
    const bool rehearsal = awaited.mask == 0;
    const typename Op::Value v = fold(awaited);
    if (first) {
      if (!rehearsal) release(split.tile_state, split.lines, tag);
      out.store<Op>(line, v);
    }
    if (!rehearsal) return;
  }
}

// What block number `reader` of the readers does. A function of its own: its code is apart from the hot path of the
// kernels that call it.
template <class Op>
__device__ __noinline__ void read_lines(Split split, Output out, unsigned reader) {
  using Value = typename Op::Value;
  const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  if (split.by_warps()) {
    const unsigned line = reader * warps + warp;
    if (line >= split.lines) return;
    const uint64_t* const words = line_words<Value>(split, line);
    read_line<Op>(split, out, line, lane == 0,
                  [&](Awaited awaited) { return fold_line_by_warp<Op>(words, split.length, split.log_tile, awaited); });
  } else {
    int log_warps = 0;
    while (2u << log_warps <= warps) log_warps++;
    const uint64_t* const words = line_words<Value>(split, reader);
    read_line<Op>(split, out, reader, threadIdx.x == 0, [&](Awaited awaited) {
      return fold_line_by_block<Op>(words, split.length, split.log_tile, awaited, log_warps);
    });
  }
}

}  // namespace torch_reductions::cuda::reduce
