// Changes: thread t works on the t-th pair instead of on element t, so that the working threads are the first ones.
// Costs:   the threads of a warp read further and further apart: more memory transactions per step.
// Gains:   whole warps work or have nothing to do; only the last five steps diverge within a warp.
// Order:   tree of the block size: neighbours, then neighbouring pairs; then the same over the partials.
// Needs:   compute capability 7.5.
// See:     Cheng, Grossman, McKercher, Professional CUDA C Programming (2014), chapter 3, "Avoiding Branch Divergence".
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class A>
__global__ void neighbored_compact_kernel(A* rows, A* partials, int64_t length, unsigned parts) {
  const Part part = part_of_block(length, parts, blockDim.x);
  A* data = rows + part.begin;
  const int tid = threadIdx.x;

  for (int stride = 1; stride < int(blockDim.x); stride *= 2) {
    const int i = 2 * stride * tid;
    if (i + stride < part.size) data[i] = Op::combine(data[i], data[i + stride]);
    __syncthreads();
  }

  if (tid == 0) partials[blockIdx.x] = data[0];
}

}  // namespace

void neighbored_compact(const ReduceArgs& args, Context& context, int threads) {
  reduce_in_place(args, context, LaunchConfig{threads}, [&]<class Op, class A>(const Pass<Op, A>& pass) {
    launch(neighbored_compact_kernel<Op, A>, pass.blocks, pass.threads, 0, context.stream, pass.rows, pass.partials,
           pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
