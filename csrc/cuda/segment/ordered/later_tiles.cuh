// In one launch: the tiles of segments that began before a window. The window publishes their digits, and whoever has
// the segment's first tile waits for them, and folds them.
//
// Every window but a line's first publishes all its digits, whether there is such a tile or not, so that nobody waits
// for ever, whatever the offsets are; and its block releases the tile state, or it might begin when all others have
// ended, and publish for the next launch.
//
// Local:   fold_tiles_in_thread (320 bytes): the binary counter, which few threads need.
#pragma once
#include "../../reduce/ordered/split.cuh"
#include "job.cuh"

namespace torch_reductions::cuda::segment {

// Where the digits of later tiles are published: tile t of a segment stands t windows behind its first one.
template <class Value>
struct Published {
  uint64_t* words;              // digit 0 of the window that the first tile stands in
  int64_t of_window, of_digit;  // words from one to the next
  int log_tile;
  unsigned tag;

  __device__ __forceinline__ uint64_t* word(int64_t tile, int digit) const {
    return words + tile * of_window + digit * of_digit;
  }
  __device__ __forceinline__ void publish(int digit, Value value) const { cuda::publish(word(0, digit), value, tag); }
};

template <class S>
__device__ __forceinline__ Published<typename S::Value> published(const Job<S>& job, int64_t line, int64_t window,
                                                                  unsigned tag) {
  constexpr int Words = kTaggedWords<typename S::Value>;
  const int64_t of_digit = job.lines * Words, of_window = (job.log_tile + 1) * of_digit;
  return {job.tile_state.words + window * of_window + line * Words, of_window, of_digit, job.log_tile, tag};
}

// By a warp: what a window publishes, given the digits of the n elements of the later tile in it.
template <class Value>
__device__ __forceinline__ void publish_digits(const Published<Value>& to, int n, const Value* digit) {
  const int lane = threadIdx.x & 31;
  if (lane <= to.log_tile) to.publish(lane, n >> lane & 1 ? digit[lane] : Value{});
}

// By a warp: the fold of a segment of n elements, longer than a tile, given that of its first tile. digit: room for
// kMaxDigits values.
template <class Op>
__device__ __noinline__ typename Op::Value fold_tiles_in_warp(Published<typename Op::Value> from, int64_t n,
                                                              typename Op::Value first, typename Op::Value* digit) {
  using Value = typename Op::Value;
  const int lane = threadIdx.x & 31;
  const int64_t whole = n >> from.log_tile;
  for (int64_t round = 0; round << 5 < whole; round++) {
    const int64_t at = (round << 5) + lane, left = whole - (round << 5);
    const int here = left < 32 ? int(left) : 32;
    Value v[1] = {at == 0 ? first : Op::identity()}, steps[5];
    if (at > 0 && lane < here) await(v, [&](int) { return from.word(at, from.log_tile); }, {from.tag});
    __syncwarp();
    const Value all = lane_digits<Op, 5>(v[0], here, steps, lane);
    if (here < 32) {
      if (lane == here) static_for<5>([&](auto k) { digit[k.value] = steps[k.value]; });
    } else if (lane == 0) {
      count_block<Op>(digit, 5, round, all);
    }
    __syncwarp();
  }
  return fold_ragged<Op>(fold_set_digits<Op>(Op::identity(), digit, whole), from.word(whole, 0), from.log_tile, n,
                         {from.tag}, lane, from.of_digit);
}

// The same by a thread.
template <class Op>
__device__ __noinline__ typename Op::Value fold_tiles_in_thread(Published<typename Op::Value> from, int64_t n,
                                                                typename Op::Value first) {
  using Value = typename Op::Value;
  Value kept[kMaxDigits];
  const int64_t whole = n >> from.log_tile;
  int64_t t = 0;
  for (; t + 4 <= whole; t += 4) {  // several at a time, as many as registers hold
    Value x[4];
    await(x, [&](int i) { return from.word(t + i > 0 ? t + i : 1, from.log_tile); }, {from.tag});
    if (t == 0) x[0] = first;
    count_block<Op>(kept, 2, t >> 2, tree<Op, 4>(x));
  }
  for (; t < whole; t++) {
    Value x[1] = {first};
    if (t > 0) await(x, [&](int) { return from.word(t, from.log_tile); }, {from.tag});
    count_block<Op>(kept, 0, t, x[0]);
  }
  Value v = fold_set_digits<Op>(Op::identity(), kept, whole);
  for (unsigned rest = unsigned(n) & ((1u << from.log_tile) - 1); rest != 0; rest ^= 1u << highest_bit(rest)) {
    Value x[1];
    await(x, [&](int) { return from.word(whole, highest_bit(rest)); }, {from.tag});
    v = Op::combine(v, x[0]);
  }
  return v;
}

}  // namespace torch_reductions::cuda::segment
