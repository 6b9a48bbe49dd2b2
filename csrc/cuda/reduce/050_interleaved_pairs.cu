// Changes: the stride begins at half of the block and halves, instead of beginning at 1 and doubling.
// Costs:   half of the block's threads do nothing but wait from the first step on.
// Gains:   neighbouring threads read and write neighbouring elements in every step: whole memory transactions.
// Order:   halves of the block: element i with element i + half, and so on; then the same over the partials.
// Needs:   compute capability 7.5.
// See:     Cheng, Grossman, McKercher, Professional CUDA C Programming (2014), chapter 3, "Avoiding Branch Divergence".
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class A>
__global__ void interleaved_pairs_kernel(A* rows, A* partials, int64_t length, unsigned parts) {
  const Part part = part_of_block(length, parts, blockDim.x);
  A* data = rows + part.begin;
  const int tid = threadIdx.x;

  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (tid < stride && tid + stride < part.size) data[tid] = Op::combine(data[tid], data[tid + stride]);
    __syncthreads();
  }

  if (tid == 0) partials[blockIdx.x] = data[0];
}

}  // namespace

void interleaved_pairs(const ReduceArgs& args, Context& context, int threads) {
  reduce_in_place(args, context, LaunchConfig{threads}, [&]<class Op, class A>(const Pass<Op, A>& pass) {
    launch(interleaved_pairs_kernel<Op, A>, pass.blocks, pass.threads, 0, context.stream, pass.rows, pass.partials,
           pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
