// Changes: the last six steps, which only the first warp works on, are unrolled and wait for that warp alone.
// Costs:   more code. __syncwarp is needed: that the lanes of a warp keep step by themselves ended with Volta.
// Gains:   six barriers of the whole block less, and no loop around the last steps; the other warps are free to go.
// Order:   2 elements that lie a block apart, then halves of the block; then the same over the partials.
// Needs:   compute capability 7.5, 8 bytes of shared memory per thread.
// See:     Harris, Optimizing Parallel Reduction in CUDA (NVIDIA, 2007), reduction 5, the last warp unrolled.
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class T, class A = typename Op::Value>
__global__ void shared_last_warp_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
  A* const shared = reinterpret_cast<A*>(memory);  // [blockDim.x]
  const Part part = part_of_block(length, parts, 2 * blockDim.x);
  const T* data = rows + part.begin;
  const int tid = threadIdx.x, other = tid + blockDim.x;

  const A left = tid < part.size ? A(data[tid]) : Op::identity();
  const A right = other < part.size ? A(data[other]) : Op::identity();
  shared[tid] = Op::combine(left, right);
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 32; stride /= 2) {
    if (tid < stride) shared[tid] = Op::combine(shared[tid], shared[tid + stride]);
    __syncthreads();
  }

  if (tid < 32) {
#pragma unroll
    for (int stride = 32; stride > 0; stride /= 2) {
      if (tid < stride) shared[tid] = Op::combine(shared[tid], shared[tid + stride]);
      __syncwarp();
    }
  }

  if (tid == 0) partials[blockIdx.x] = shared[0];
}

}  // namespace

void shared_last_warp(const ReduceArgs& args, Context& context, int threads) {
  // With the block sizes of shared_complete, so that the two differ in nothing else.
  const LaunchConfig config{.block_size = threads, .each = 2, .growth = 8};
  reduce_in_passes(args, context, config, [&]<class Op, class T>(const Pass<Op, const T>& pass) {
    launch(shared_last_warp_kernel<Op, T>, pass.blocks, pass.threads, pass.threads * sizeof(typename Op::Value),
           context.stream, pass.rows, pass.partials, pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
