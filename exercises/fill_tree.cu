// Fill in: the loop of a tree. In each step the threads below `stride` add the element that lies `stride` further; then
// stride halves. The part may be smaller than the block: part.size.
// Check: python -m torch_reductions try --check fill_tree [FILE]
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class A>
__global__ void interleaved_pairs_kernel(A* rows, A* partials, int64_t length, unsigned parts) {
  const Part part = part_of_block(length, parts, blockDim.x);
  A* data = rows + part.begin;
  const int tid = threadIdx.x;

  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    // Your code: use Op::combine(a, b), and let no thread begin a step before all have ended the one before.
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
