// A line (the elements of one result) that several blocks share: each publishes the total of a tile of it, the block of
// the ragged tile its digits, and more blocks, the last ones of the grid, wait for them and fold them.
#pragma once
#include "../../primitives/grid.cuh"
#include "elements.cuh"

namespace torch_reductions::cuda {

inline constexpr int kWarpReads = 256;  // tiles that one warp folds: 8 neighbours a lane
inline constexpr int kLogWarpReads = 8;
inline constexpr int kMaxDigits = 40;

struct Split {
  int64_t length;  // of a line
  int log_tile;
  unsigned lines, tiles;  // the tiles of a line, the ragged one included
  Board board;            // where there are several: [line][whole tile, then digit of the ragged one]

  // The lines that the readers' blocks take in turn: a warp a line, or a block a line.
  HOST_DEVICE bool by_warps() const { return length >> log_tile <= kWarpReads; }
  HOST_DEVICE unsigned readers(unsigned threads) const {
    const unsigned warps = threads / 32;
    return tiles == 1 ? 0 : by_warps() ? (lines + warps - 1) / warps : lines;
  }
  HOST_DEVICE int64_t words_of_line() const { return (length >> log_tile) + log_tile; }  // for a value of one word
};

template <class Value>
__device__ __forceinline__ uint64_t* line_words(const Split& split, int64_t line) {
  return split.board.words + line * split.words_of_line() * kTaggedWords<Value>;
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

// The n <= 256 totals from `words` on, 8 neighbours a lane: x[i] is number lane * 8 + i, or the identity past the end.
// Has the whole warp got all of them?
template <class Op>
__device__ __forceinline__ bool totals_arrived(typename Op::Value (&x)[8], const uint64_t* words, int n, unsigned tag,
                                               int lane) {
  const bool all = arrived(
      x, [&](int i) { return words + (lane * 8 + i < n ? lane * 8 + i : n - 1) * kTaggedWords<typename Op::Value>; },
      tag);
#pragma unroll
  for (int i = 0; i < 8; i++)
    if (lane * 8 + i >= n) x[i] = Op::identity();
  return __all_sync(kFullWarp, all);
}

// Digits 0, 1 and 2 of n values of which 8 stand in each lane; right in the lane that n ends in.
template <class Op>
__device__ __forceinline__ void digits_in_lane(const typename Op::Value (&x)[8], int n,
                                               typename Op::Value (&digit)[3]) {
  digit[2] = tree<Op, 4>(x);
  digit[1] = n & 4 ? tree<Op, 2>(x + 4) : tree<Op, 2>(x);
  digit[0] = n & 4 ? (n & 2 ? x[6] : x[4]) : (n & 2 ? x[2] : x[0]);
}

// base ∘ the ragged tile's digits, one a lane.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_ragged(typename Op::Value base, const uint64_t* digits, int log_tile,
                                                          int64_t length, unsigned tag, int lane) {
  unsigned set = unsigned(length) & ((1u << log_tile) - 1);
  if (set == 0) return base;
  typename Op::Value mine[1];
  const int from = lane < log_tile && set >> lane & 1 ? lane : highest_bit(set);  // any digit that is there
  while (!arrived(mine, [&](int) { return digits + from * kTaggedWords<typename Op::Value>; }, tag)) {
  }
  __syncwarp();
  for (; set != 0; set ^= 1u << highest_bit(set)) base = Op::combine(base, shuffle(mine[0], highest_bit(set)));
  return base;
}

// The fold of a line of at most 256 whole tiles, by a warp.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_line_by_warp(const uint64_t* words, int64_t length, int log_tile,
                                                                unsigned tag) {
  using Value = typename Op::Value;
  const int lane = threadIdx.x & 31, n = int(length >> log_tile), lanes = n >> 3;
  Value v = Op::identity();
  if (n > 0) {
    Value x[8], digit[5], low[3];
    for (int rounds = 0;; pause(rounds++)) {
      const bool all = totals_arrived<Op>(x, words, n, tag, lane);
      v = lane_digits<Op, 5>(tree<Op, 8>(x), lanes, digit, lane);
      v = fold_digits<Op>(lanes == 32 ? v : Op::identity(), digit);
      digits_in_lane<Op>(x, n, low);
#pragma unroll
      for (int k = 2; k >= 0; k--)
        if (n >> k & 1) v = Op::combine(v, low[k]);
      v = shuffle(v, lanes & 31);
      if (all) break;
    }
  }
  return fold_ragged<Op>(v, words + n * kTaggedWords<Value>, log_tile, length, tag, lane);
}

// The same of any number of tiles, by a block of 2^log_warps warps at least; right in its first warp.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_line_by_block(const uint64_t* words, int64_t length, int log_tile,
                                                                 unsigned tag, int log_warps) {
  using Value = typename Op::Value;
  __shared__ Value total[32], digit[kMaxDigits];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = 1 << log_warps,
            log_round = kLogWarpReads + log_warps;
  const int64_t whole = length >> log_tile;
  for (int64_t round = 0; round << log_round < whole; round++) {
    const int64_t first = (round << log_round) + warp * kWarpReads, left = whole - first;
    if (warp < warps && left > 0) {
      const int n = left < kWarpReads ? int(left) : kWarpReads, lanes = n >> 3;
      Value x[8], steps[5], low[3];
      for (int rounds = 0;; pause(rounds++)) {
        const bool all = totals_arrived<Op>(x, words + first * kTaggedWords<Value>, n, tag, lane);
        const Value v = lane_digits<Op, 5>(tree<Op, 8>(x), lanes, steps, lane);
        if (lane == 0) total[warp] = v;
        if (lane == lanes) {  // of the ragged warp only
          digits_in_lane<Op>(x, n, low);
          each<3>([&](auto k) { digit[k.value] = low[k.value]; });
          each<5>([&](auto k) { digit[3 + k.value] = steps[k.value]; });
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
          each<5>([&](auto k) {
            if (k.value < log_warps) digit[kLogWarpReads + k.value] = steps[k.value];
          });
      } else if (lane == 0) {  // a whole round: the binary counter
        int k = log_round;
        for (; round >> (k - log_round) & 1; k++) v = Op::combine(digit[k], v);
        digit[k] = v;
      }
    }
    __syncthreads();
  }
  Value v = Op::identity();
  if (warp == 0) {
    v = fold_set_digits<Op>(v, digit, whole);
    v = fold_ragged<Op>(v, words + whole * kTaggedWords<Value>, log_tile, length, tag, lane);
  }
  return v;
}

// What block number `reader` of the readers does.
template <class Op>
__device__ __forceinline__ void read_lines(const Split& split, const Output& out, unsigned reader, unsigned tag) {
  using Value = typename Op::Value;
  const unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  unsigned line = reader;
  Value v;
  if (split.by_warps()) {
    line = reader * warps + warp;
    if (line >= split.lines) return;
    v = fold_line_by_warp<Op>(line_words<Value>(split, line), split.length, split.log_tile, tag);
  } else {
    int log_warps = 0;
    while (2u << log_warps <= warps) log_warps++;
    v = fold_line_by_block<Op>(line_words<Value>(split, line), split.length, split.log_tile, tag, log_warps);
    if (warp > 0) return;
  }
  if (lane == 0) {
    leave(split.board, split.lines, tag);
    out.store<Op>(line, v);
  }
}

}  // namespace torch_reductions::cuda
