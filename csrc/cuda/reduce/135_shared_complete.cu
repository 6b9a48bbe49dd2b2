// Changes: the block size is a template parameter, so that the compiler unrolls the loop over the strides as well.
// Costs:   one kernel for each block size, from 64 to 1024; without a given one it is 64 for short rows, else 512.
// Gains:   no loop counter, no comparison with a run-time block size; the strides are constants in the addresses. Of a
//          block of 128, the book's, one step is outside the unrolled warp: an H100 gains only with larger ones.
// Order:   2 elements that lie a block apart, then halves of the block; then the same over the partials.
// Needs:   compute capability 7.5, 8 bytes of shared memory per thread.
// See:     Harris, Optimizing Parallel Reduction in CUDA (NVIDIA, 2007), reduction 6, completely unrolled.
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class T, int kThreads, class A = typename Op::Value>
__global__ void shared_complete_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
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

void shared_complete(const ReduceArgs& args, Context& context, int threads) {
  const LaunchConfig config{.block_size = threads, .each = 2, .growth = 8};
  reduce_in_passes(args, context, config, [&]<class Op, class T>(const Pass<Op, const T>& pass) {
    with_threads(pass.threads, [&]<int kThreads>(std::integral_constant<int, kThreads>) {
      launch(shared_complete_kernel<Op, T, kThreads>, pass.blocks, kThreads, 0, context.stream, pass.rows,
             pass.partials, pass.length, pass.parts);
    });
  });
}

}  // namespace torch_reductions::cuda::reduce
