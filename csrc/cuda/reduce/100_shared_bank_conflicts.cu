// Changes: thread t works on the t-th pair instead of on element t, so that the working threads are the first ones.
// Costs:   the threads of a warp address shared memory with strides 2, 4, 8 ...: they meet in the same banks and queue.
// Gains:   no remainder to compute; whole warps work or have nothing to do.
// Order:   tree of the block size: neighbours, then neighbouring pairs; then the same over the partials.
// Needs:   compute capability 7.5, 8 bytes of shared memory per thread.
// See:     Harris, Optimizing Parallel Reduction in CUDA (NVIDIA, 2007), reduction 2, bank conflicts.
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class T, class A = typename Op::Value>
__global__ void shared_bank_conflicts_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
  A* const shared = reinterpret_cast<A*>(memory);  // [blockDim.x]
  const Part part = part_of_block(length, parts, blockDim.x);
  const T* data = rows + part.begin;
  const int tid = threadIdx.x;

  shared[tid] = tid < part.size ? A(data[tid]) : Op::identity();
  __syncthreads();

  for (int stride = 1; stride < int(blockDim.x); stride *= 2) {
    const int i = 2 * stride * tid;
    if (i < int(blockDim.x)) shared[i] = Op::combine(shared[i], shared[i + stride]);
    __syncthreads();
  }

  if (tid == 0) partials[blockIdx.x] = shared[0];
}

}  // namespace

void shared_bank_conflicts(const ReduceArgs& args, Context& context, int threads) {
  reduce_in_passes(args, context, LaunchConfig{threads}, [&]<class Op, class T>(const Pass<Op, const T>& pass) {
    launch(shared_bank_conflicts_kernel<Op, T>, pass.blocks, pass.threads, pass.threads * sizeof(typename Op::Value),
           context.stream, pass.rows, pass.partials, pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
