// Changes: a block reduces two blocks of data: each thread adds two elements while it loads.
// Costs:   the loop over the strides still runs with a barrier for the last warp's steps.
// Gains:   half as many blocks, and all threads do at least one addition; two loads in flight per thread.
// Order:   2 elements that lie a block apart, then halves of the block; then the same over the partials.
// Needs:   compute capability 7.5, 8 bytes of shared memory per thread.
// See:     Harris, Optimizing Parallel Reduction in CUDA (NVIDIA, 2007), reduction 4, first add during load.
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class T, class A = typename Op::Value>
__global__ void shared_first_add_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
  A* const shared = reinterpret_cast<A*>(memory);  // [blockDim.x]
  const Part part = part_of_block(length, parts, 2 * blockDim.x);
  const T* data = rows + part.begin;
  const int tid = threadIdx.x, other = tid + blockDim.x;

  const A left = tid < part.size ? A(data[tid]) : Op::identity();
  const A right = other < part.size ? A(data[other]) : Op::identity();
  shared[tid] = Op::combine(left, right);
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (tid < stride) shared[tid] = Op::combine(shared[tid], shared[tid + stride]);
    __syncthreads();
  }

  if (tid == 0) partials[blockIdx.x] = shared[0];
}

}  // namespace

void shared_first_add(const ReduceArgs& args, Context& context, int threads) {
  const LaunchConfig config{.block_size = threads, .each = 2};
  reduce_in_passes(args, context, config, [&]<class Op, class T>(const Pass<Op, const T>& pass) {
    launch(shared_first_add_kernel<Op, T>, pass.blocks, pass.threads, pass.threads * sizeof(typename Op::Value),
           context.stream, pass.rows, pass.partials, pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
