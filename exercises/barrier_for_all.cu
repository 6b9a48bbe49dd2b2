// A barrier that not all threads reach: on a GPU this may hang, or not, or give wrong sums. Let every thread of the block
// reach every barrier.
// Check: python -m torch_reductions try --check barrier_for_all [FILE]
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class T, class A = typename Op::Value>
__global__ void shared_first_add_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
  __shared__ A shared[kMaxThreads];
  const Part part = part_of_block(length, parts, 2 * blockDim.x);
  const T* data = rows + part.begin;
  const int tid = threadIdx.x, other = tid + blockDim.x;

  const A left = tid < part.size ? A(data[tid]) : Op::identity();
  const A right = other < part.size ? A(data[other]) : Op::identity();
  shared[tid] = Op::combine(left, right);
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (tid < stride) {
      shared[tid] = Op::combine(shared[tid], shared[tid + stride]);
      __syncthreads();
    }
  }

  if (tid == 0) partials[blockIdx.x] = shared[0];
}

}  // namespace

void shared_first_add(const ReduceArgs& args, Context& context, int threads) {
  reduce_in_passes(args, context, LaunchConfig{.block_size = threads, .each = 2},
                   [&]<class Op, class T>(const Pass<Op, const T>& pass) {
                     launch(shared_first_add_kernel<Op, T>, pass.blocks, pass.threads, 0, context.stream, pass.rows,
                            pass.partials, pass.length, pass.parts);
                   });
}

}  // namespace torch_reductions::cuda::reduce
