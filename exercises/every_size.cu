// Make it right for every size: it is for a length that the block size divides. The last part of a row may be smaller:
// it has part.size elements.
// Check: python -m torch_reductions try --check every_size [FILE]
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
    if (i < part.size) data[i] = Op::combine(data[i], data[i + stride]);
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
