// Changes: the last six steps, which only the first warp works on, are unrolled and wait for that warp alone.
// Costs:   more code. __syncwarp is needed: that the lanes of a warp keep step by themselves ended with Volta.
// Gains:   six barriers of the whole block less, and no loop around the last steps; the other warps are free to go. The
//          book's GPU, of 2010, gained a twentieth; an H100 gains nothing, because memory hides those barriers
//          (docs/ladder.md, Book and machine).
// Order:   8 elements that lie a block apart from left to right, then halves; then the same over the partials.
// Needs:   compute capability 7.5.
// See:     Cheng, Grossman, McKercher, Professional CUDA C Programming (2014), chapter 3, "Unrolling Loops".
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

constexpr int kEach = 8;

template <class Op, class A>
__global__ void unrolled_last_warp_kernel(A* rows, A* partials, int64_t length, unsigned parts) {
  const Part part = part_of_block(length, parts, kEach * blockDim.x);
  A* data = rows + part.begin;
  const int tid = threadIdx.x;

  if (tid < part.size) {
    A values[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = tid + k * blockDim.x;
      values[k] = i < part.size ? data[i] : Op::identity();
    }
#pragma unroll
    for (int k = 1; k < kEach; ++k) values[0] = Op::combine(values[0], values[k]);
    data[tid] = values[0];
  }
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 32; stride /= 2) {
    if (tid < stride && tid + stride < part.size) data[tid] = Op::combine(data[tid], data[tid + stride]);
    __syncthreads();
  }

  if (tid < 32) {
#pragma unroll
    for (int stride = 32; stride > 0; stride /= 2) {
      if (tid < stride && tid + stride < part.size) data[tid] = Op::combine(data[tid], data[tid + stride]);
      __syncwarp();
    }
  }

  if (tid == 0) partials[blockIdx.x] = data[0];
}

}  // namespace

void unrolled_last_warp(const ReduceArgs& args, Context& context, int threads) {
  const LaunchConfig config{.block_size = threads, .each = kEach};
  reduce_in_place(args, context, config, [&]<class Op, class A>(const Pass<Op, A>& pass) {
    launch(unrolled_last_warp_kernel<Op, A>, pass.blocks, pass.threads, 0, context.stream, pass.rows, pass.partials,
           pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
