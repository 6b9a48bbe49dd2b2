// Changes: the stride begins at half of the block and halves, instead of beginning at 1 and doubling.
// Costs:   half of the block's threads load one element and then do nothing but wait.
// Gains:   neighbouring threads address neighbouring words of shared memory: no bank conflict.
// Order:   halves of the block: element i with element i + half, and so on; then the same over the partials.
// Needs:   compute capability 7.5, 8 bytes of shared memory per thread.
// See:     Harris, Optimizing Parallel Reduction in CUDA (NVIDIA, 2007), reduction 3, sequential addressing.
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class T, class A = typename Op::Value>
__global__ void shared_sequential_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
  A* const shared = reinterpret_cast<A*>(memory);  // [blockDim.x]
  const Part part = part_of_block(length, parts, blockDim.x);
  const T* data = rows + part.begin;
  const int tid = threadIdx.x;

  shared[tid] = tid < part.size ? A(data[tid]) : Op::identity();
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (tid < stride) shared[tid] = Op::combine(shared[tid], shared[tid + stride]);
    __syncthreads();
  }

  if (tid == 0) partials[blockIdx.x] = shared[0];
}

}  // namespace

void shared_sequential(const ReduceArgs& args, Context& context, int threads) {
  reduce_in_passes(args, context, LaunchConfig{threads}, [&]<class Op, class T>(const Pass<Op, const T>& pass) {
    launch(shared_sequential_kernel<Op, T>, pass.blocks, pass.threads, pass.threads * sizeof(typename Op::Value),
           context.stream, pass.rows, pass.partials, pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
