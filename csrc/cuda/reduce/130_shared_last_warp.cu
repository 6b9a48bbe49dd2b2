// Changes: the block size is a template parameter, all loops are unrolled, and the last six steps wait for one warp.
// Costs:   one kernel for each block size: two sizes here, 64 for short rows and 512.
// Gains:   six barriers of the whole block less; no loop counter, and the strides are constants in the addresses.
// Order:   2 elements that lie a block apart, then halves of the block; then the same over the partials.
// Needs:   compute capability 7.5, 4 KB of shared memory per block.
// See:     Harris, Optimizing Parallel Reduction in CUDA (NVIDIA, 2007), reductions 5 and 6, unrolled.
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class T, int kThreads, class A = typename Op::Value>
__global__ void shared_last_warp_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
  __shared__ A shared[kThreads];
  const Part part = part_of_block(length, parts, 2 * kThreads);
  const T* data = rows + part.begin;
  const int tid = threadIdx.x, other = tid + kThreads;

  const A left = tid < part.size ? A(data[tid]) : Op::identity();
  const A right = other < part.size ? A(data[other]) : Op::identity();
  shared[tid] = Op::combine(left, right);
  __syncthreads();

#pragma unroll
  for (int stride = kThreads / 2; stride > 32; stride /= 2) {
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

void shared_last_warp(const ReduceArgs& args, Context& context) {
  reduce_in_passes(
      args, context, LaunchConfig{.each = 2, .growth = 8}, [&]<class Op, class T>(const Pass<Op, const T>& pass) {
        auto* kernel = pass.threads == 64 ? shared_last_warp_kernel<Op, T, 64> : shared_last_warp_kernel<Op, T, 512>;
        launch(kernel, pass.blocks, pass.threads, 0, context.stream, pass.rows, pass.partials, pass.length, pass.parts);
      });
}

}  // namespace torch_reductions::cuda::reduce
