// Warps: masks, shuffles, and memory that only the lanes of a warp share.
#include "fault.h"

namespace {
using namespace emulator::faults;

template <bool sound>
__global__ void reverse(const int* in, int* out) {
  __shared__ int shared[64];
  const int lane = threadIdx.x % 32, first = threadIdx.x - lane;
  for (int round = 0; round < 2; round++) {
    shared[threadIdx.x] = in[threadIdx.x] + round;
    if (sound) __syncwarp();
    out[threadIdx.x] = shared[first + 31 - lane];
    if (sound) __syncwarp();
  }
}
FAULT(missing_syncwarp, kRaces, "race in shared memory|shared memory that nobody has written") {
  Buffer<int> in(64), out(64);
  for (int i = 0; i < 64; i++) in[i] = i % 32;
  launch(reverse<sound>, 1, 64, in, out);
  return expect(out[0] == 32 && out[31] == 1 && out[33] == 31);
}

// Before Volta the lanes of a warp kept step; since then volatile is not enough.
template <bool sound>
__global__ void last_warp(const float* in, float* out) {
  __shared__ float shared[64];
  shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x >= 32) return;
  if (sound) {
    for (int stride = 32; stride > 0; stride /= 2) {
      if (int(threadIdx.x) < stride) shared[threadIdx.x] += shared[threadIdx.x + stride];
      __syncwarp();
    }
  } else {
    volatile float* step = shared;
    for (int stride = 32; stride > 0; stride /= 2) step[threadIdx.x] = step[threadIdx.x] + step[threadIdx.x + stride];
  }
  if (threadIdx.x == 0) *out = shared[0];
}
FAULT(volatile_warp_reduction, kRaces | kPlain, "race in shared memory|wrong result") {
  Buffer<float> in(64, 1), out(1);
  launch(last_warp<sound>, 1, 64, in, out);
  return expect(out[0] == 64);
}

// A ragged tail: the lanes past the end do not come.
template <bool sound>
__global__ void tail_of_a_warp(const int* in, int* out, int n) {
  const int i = int(threadIdx.x);
  if (!sound && i >= n) return;
  int value = i < n ? in[i] : 0;
  for (int delta = 16; delta > 0; delta /= 2) value += __shfl_down_sync(~0u, value, delta);
  if (i == 0) *out = value;
}
FAULT(shuffle_in_a_ragged_tail, kPlain | kRaces | kAsan, "reads lane [0-9]+, which takes no part in the shuffle") {
  Buffer<int> in(20, 1), out(1);
  launch(tail_of_a_warp<sound>, 1, 32, in, out, 20);
  return expect(out[0] == 20);
}

template <bool sound>
__global__ void half_warps(int* out) {
  const bool low = threadIdx.x < 16;
  const unsigned mask = sound ? (low ? 0xffffu : 0xffff0000u) : 0xffffu;
  out[threadIdx.x] = __shfl_xor_sync(mask, int(threadIdx.x), 1);
}
FAULT(lane_outside_its_mask, kPlain | kRaces | kAsan, "lane [0-9]+, which is not in its own mask 0x0000ffff") {
  Buffer<int> out(32);
  launch(half_warps<sound>, 1, 32, out);
  return expect(out[0] == 1 && out[31] == 30);
}

// Half of the warp waits in a shuffle for the other half, which waits at the block's barrier.
template <bool sound>
__global__ void shuffle_in_a_branch(int* out) {
  int value = int(threadIdx.x);
  if (sound || threadIdx.x % 2 == 0) value = __shfl_sync(~0u, value, 0);
  __syncthreads();
  out[threadIdx.x] = value;
}
FAULT(full_mask_in_a_branch, kPlain | kRaces | kAsan, "deadlock: .*__shfl_sync at .*warps.cu") {
  Buffer<int> out(64);
  launch(shuffle_in_a_branch<sound>, 1, 64, out);
  return expect(out[5] == 0 && out[40] == 32);
}

template <bool sound>
__global__ void reads_a_lane_of_the_other_half(int* out) {
  const unsigned mask = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;
  out[threadIdx.x] = __shfl_xor_sync(mask, int(threadIdx.x), sound ? 8 : 16);
}
FAULT(read_from_a_lane_outside_the_mask, kPlain | kRaces | kAsan, "lane 0 reads lane 16, which takes no part") {
  Buffer<int> out(32);
  launch(reads_a_lane_of_the_other_half<sound>, 1, 32, out);
  return expect(out[0] == 8 && out[31] == 23);
}

template <bool sound>
__global__ void two_shuffles(int* out) {
  int value = int(threadIdx.x);
  if (sound) {
    value = __shfl_sync(~0u, value, 3);
  } else if (threadIdx.x < 16) {
    value = __shfl_sync(~0u, value, 3);
  } else {
    value = __shfl_sync(~0u, value, 3);
  }
  out[threadIdx.x] = value;
}
FAULT(divergent_warp, kPlain | kRaces | kAsan, "divergent warp: __shfl_sync") {
  Buffer<int> out(32);
  launch(two_shuffles<sound>, 1, 32, out);
  return expect_all(out, 3);
}

template <bool sound>
__global__ void votes(int* out) {
  const unsigned mask = __ballot_sync(~0u, threadIdx.x < 20);
  if (threadIdx.x < 20) {
    const int lowest = __reduce_min_sync(sound ? mask : ~0u, int(threadIdx.x) + 5);
    out[threadIdx.x] = lowest;
  } else {
    __syncwarp(~mask);
    out[threadIdx.x] = 5;
  }
  __syncthreads();
}
FAULT(mask_of_lanes_that_went_another_way, kPlain | kRaces | kAsan, "deadlock: .*__reduce_min_sync at .*warps.cu") {
  Buffer<int> out(32);
  launch(votes<sound>, 1, 32, out);
  return expect_all(out, 5);
}

template <bool sound>
__global__ void butterfly(const int* in, int* out) {
  int value = in[threadIdx.x];
  for (int mask = sound ? 16 : 8; mask > 0; mask /= 2) value += __shfl_xor_sync(~0u, value, mask);
  out[threadIdx.x] = value;
}
FAULT(one_step_of_a_butterfly_left_out, kPlain | kRaces | kAsan, "wrong result: 16 for 32") {
  Buffer<int> in(64, 1), out(64);
  launch(butterfly<sound>, 1, 64, in, out);
  return expect_all(out, 32);
}

}  // namespace
