// What windows publish: the tiles of segments that began before them. Whoever has a segment's first tile waits for the
// others, and folds them.
//
// Every window publishes all its digits, whether there is such a tile or not, so that nobody waits for ever, whatever the
// offsets are; and releases the tile state, or it might begin when all others have ended, and publish for the next launch.
//
// Local:   fold_later_tiles_in_thread (320 bytes): the binary counter, which few threads need.
#pragma once
#include "../../reduce/ordered/split.cuh"
#include "job.cuh"

namespace torch_reductions::cuda::segment {

// By a warp: what window `window` of a line publishes, given the digits of the n elements of the later tile in it.
template <class S>
__device__ __forceinline__ void publish_digits(const Job<S>& job, int64_t line, int64_t window, int n,
                                               const typename S::Value* digit, unsigned tag) {
  using Value = typename S::Value;
  const int lane = threadIdx.x & 31;
  if (lane <= job.log_tile)
    publish(job.words(line, window) + lane * kTaggedWords<Value>, n >> lane & 1 ? digit[lane] : Value{}, tag);
}

// By a warp: the fold of a segment of n elements, longer than a tile, given that of its first tile, which stands in
// window `window`; tile t stands in window `window` + t. digit: room for as many.
template <class S>
__device__ __forceinline__ typename S::Value fold_later_tiles(const Job<S>& job, int64_t line, int64_t window,
                                                              int64_t n, typename S::Value first, unsigned tag,
                                                              typename S::Value* digit) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  const int lane = threadIdx.x & 31;
  const int64_t whole = n >> job.log_tile;
  for (int64_t round = 0; round << 5 < whole; round++) {
    const int64_t at = (round << 5) + lane, left = whole - (round << 5);
    const int here = left < 32 ? int(left) : 32;
    Value v[1] = {at == 0 ? first : Op::identity()}, steps[5];
    if (at > 0 && lane < here) {
      const uint64_t* const words = job.words(line, window + at) + job.log_tile * kTaggedWords<Value>;
      await(v, [&](int) { return words; }, {tag});
    }
    __syncwarp();
    Value all = lane_digits<Op, 5>(v[0], here, steps, lane);
    if (here < 32) {
      if (lane == here) static_for<5>([&](auto k) { digit[k.value] = steps[k.value]; });
    } else if (lane == 0) {  // the binary counter
      int k = 5;
      for (; round >> (k - 5) & 1; k++) all = Op::combine(digit[k], all);
      digit[k] = all;
    }
    __syncwarp();
  }
  return fold_ragged<Op>(fold_set_digits<Op>(Op::identity(), digit, whole), job.words(line, window + whole),
                         job.log_tile, n, {tag}, lane);
}

// The same by a thread; words: of the window that the first tile stands in. A function of its own: few threads call it.
template <class Op>
__device__ __noinline__ typename Op::Value fold_later_tiles_in_thread(const uint64_t* words, int log_tile, int64_t n,
                                                                      typename Op::Value first, unsigned tag) {
  using Value = typename Op::Value;
  Value kept[kMaxDigits];
  const int64_t whole = n >> log_tile;
  const auto word = [&](int64_t tile, int digit) {
    return words + (tile * (log_tile + 1) + digit) * kTaggedWords<Value>;
  };
  const auto push = [&](int64_t t, int k, Value v) {  // the binary counter
    for (; t >> k & 1; k++) v = Op::combine(kept[k], v);
    kept[k] = v;
  };
  int64_t t = 0;
  for (; t + 4 <= whole; t += 4) {  // several at a time, as many as registers hold
    Value x[4];
    await(x, [&](int i) { return word(t + i > 0 ? t + i : 1, log_tile); }, {tag});
    if (t == 0) x[0] = first;
    push(t, 2, tree<Op, 4>(x));
  }
  for (; t < whole; t++) {
    Value x[1] = {first};
    if (t > 0) await(x, [&](int) { return word(t, log_tile); }, {tag});
    push(t, 0, x[0]);
  }
  Value v = fold_set_digits<Op>(Op::identity(), kept, whole);
  for (unsigned rest = unsigned(n) & ((1u << log_tile) - 1); rest != 0; rest ^= 1u << highest_bit(rest)) {
    Value x[1];
    await(x, [&](int) { return word(whole, highest_bit(rest)); }, {tag});
    v = Op::combine(v, x[0]);
  }
  return v;
}

}  // namespace torch_reductions::cuda::segment
