// Changes: the first rung on the GPU: each block folds its part of a row as a tree, in place in global memory.
// Costs:   half of the threads of each warp idle in the first step, three quarters in the second, and still issue; each
//          step reads and writes global memory; the input is copied first, because it must not change.
// Gains:   every element's work is independent within a step: log2 of the block size steps instead of a chain.
// Order:   tree of the block size: neighbours, then neighbouring pairs; then the same over the partials.
// Needs:   compute capability 7.5.
// See:     Cheng, Grossman, McKercher, Professional CUDA C Programming (2014), chapter 3, "Avoiding Branch Divergence".
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class A>
__global__ void neighbored_divergent_kernel(A* rows, A* partials, int64_t length, unsigned parts) {
  const Part part = part_of_block(length, parts, blockDim.x);
  A* data = rows + part.begin;
  const int tid = threadIdx.x;

  for (int stride = 1; stride < int(blockDim.x); stride *= 2) {
    if (tid % (2 * stride) == 0 && tid + stride < part.size) data[tid] = Op::combine(data[tid], data[tid + stride]);
    __syncthreads();
  }

  if (tid == 0) partials[blockIdx.x] = data[0];
}

}  // namespace

void neighbored_divergent(const ReduceArgs& args, Context& context, int threads) {
  reduce_in_place(args, context, LaunchConfig{threads}, [&]<class Op, class A>(const Pass<Op, A>& pass) {
    launch(neighbored_divergent_kernel<Op, A>, pass.blocks, pass.threads, 0, context.stream, pass.rows, pass.partials,
           pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
