// Find the race: this kernel is right on many a GPU, on most days. Two threads access the same element of shared memory,
// one of them writes, and nothing orders them.
// Check: python -m torch_reductions try --check race_tree [FILE]
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class T, class A = typename Op::Value>
__global__ void shared_sequential_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
  __shared__ A shared[kMaxThreads];
  const Part part = part_of_block(length, parts, blockDim.x);
  const T* data = rows + part.begin;
  const int tid = threadIdx.x;

  shared[tid] = tid < part.size ? A(data[tid]) : Op::identity();
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (tid < stride) shared[tid] = Op::combine(shared[tid], shared[tid + stride]);
  }

  if (tid == 0) partials[blockIdx.x] = shared[0];
}

}  // namespace

void shared_sequential(const ReduceArgs& args, Context& context, int threads) {
  reduce_in_passes(args, context, LaunchConfig{threads}, [&]<class Op, class T>(const Pass<Op, const T>& pass) {
    launch(shared_sequential_kernel<Op, T>, pass.blocks, pass.threads, 0, context.stream, pass.rows, pass.partials,
           pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
