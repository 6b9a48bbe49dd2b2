// What the blocks of a grid do together.
#pragma once
#include "memory.cuh"

namespace torch_reductions::cuda {

// True in the block that comes last of `count` to this ticket, which is then 0 again. The whole block calls it, after
// its threads wrote to global memory what the last block reads.
__device__ __forceinline__ bool arrive_last(unsigned* ticket, unsigned count) {
  __shared__ unsigned before;
  __syncthreads();
  if (threadIdx.x == 0) before = increment_wrapping(ticket, count - 1);
  __syncthreads();
  return before == count - 1;
}

// The same for one warp.
__device__ __forceinline__ bool arrive_last_warp(unsigned* ticket, unsigned count) {
  unsigned before = 0;
  __syncwarp();
  if ((threadIdx.x & 31) == 0) before = increment_wrapping(ticket, count - 1);
  return __shfl_sync(0xffffffffu, before, 0) == count - 1;
}

}  // namespace torch_reductions::cuda
