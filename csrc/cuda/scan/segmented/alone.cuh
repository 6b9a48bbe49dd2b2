// A stretch that is one tile of one segment: one thread per run, side by side, and the tree over them in registers.
#pragma once
#include "tile.cuh"

namespace torch_reductions::cuda::scan {

template <class Tile>
struct AloneStretch {
  using Op = typename Tile::Op;
  using Value = typename Tile::Value;
  static constexpr int R = Tile::R, kLogWarps = Tile::kLogWarps;

  const Tile& tile;
  const Stretch& stretch = tile.stretch;

  __device__ __forceinline__ Value* run() const {  // its elements are 1 << log_lines() apart
    return &tile.elements[(threadIdx.x >> tile.log_lines()) * ((R + 1) << tile.log_lines()) + tile.column()];
  }
  __device__ __forceinline__ Value& total_of_warp(int warp) const {
    return tile.memory.warp_total[tile.n % kStretches][warp][tile.column()];
  }
  __device__ __forceinline__ Value block_of_warps(int from, int log_count) const {
    return block_of<Op>([&](int i) { return total_of_warp(from + i); }, log_count);
  }

  // The run's total; stores that of its warp.
  __device__ __forceinline__ Value up() const {
    const Value* const at = run();
    Value x[R], keep[5];
#pragma unroll
    for (int i = 0; i < R; i++) x[i] = at[i << tile.log_lines()];
    const Value total = tree<Op, R>(x), of_warp = runs_of_warp<Op>(total, keep, tile.log_lines());
    if (tile.leads()) total_of_warp(threadIdx.x >> 5) = of_warp;
    return total;
  }
  __device__ __forceinline__ int publish() const {
    return threadIdx.x < 32 ? tile.publish(block_of_warps(0, kLogWarps)) : 0;
  }

  __device__ __forceinline__ void down() const {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    Value keep[5], left[kLogWarps];  // left[k]: the block of 2^k warps left of this one, where its number has bit k
    Value last = runs_of_warp<Op>(tile.total(), keep, tile.log_lines());
#pragma unroll
    for (int k = 0; k < kLogWarps; k++)
      if (warp >> k & 1) left[k] = block_of_warps((warp >> (k + 1)) << (k + 1), k);
    SoFar<Op> before;
    if (stretch.tile > 0 && tile.exists) before = tile.before_tile(stretch.tile);
    const int ones = __ffs(~warp) - 1;  // trailing ones: a step of the binary counter
    SoFar<Op> rest = before;
#pragma unroll
    for (int k = 0; k < kLogWarps; k++)
      if (k < ones) last = Op::combine(left[k], last);
#pragma unroll
    for (int k = kLogWarps - 1; k >= 0; k--)
      if (warp >> k & 1) {
        before.append(left[k]);
        if (k > ones) rest = before;
      }
    if (stretch.tile > 0 && ones == kLogWarps) {
      if (tile.exists) last = tile.after_tile(stretch.tile, last);
    } else {
      rest.append(last);
      last = rest.value;
    }
#pragma unroll
    for (int k = 4; k >= 0; k--)
      if (tile.log_lines() + k < 5 && lane >> (tile.log_lines() + k) & 1) before.append(keep[k]);
    if (tile.log_lines() < 5) {
      const int next_run = lane + (1 << tile.log_lines());
      const Value next = shuffle(before.value, next_run & 31);
      if (next_run < 32) last = next;
    }

    Value* const at = run();
    Value x[R];
#pragma unroll
    for (int i = 0; i < R; i++) x[i] = at[i << tile.log_lines()];
    blocks_of_run<Op, R>(x);
    const int first = (threadIdx.x >> tile.log_lines()) * R;
    if (first < stretch.length && tile.exists) tile.finish(x, before, last, stretch.begin + first);
#pragma unroll
    for (int i = 0; i < R; i++) at[i << tile.log_lines()] = x[i];
  }
};

}  // namespace torch_reductions::cuda::scan
