// Changes: a block first copies its part to shared memory and folds it there; the tree is that of neighbored_divergent.
// Costs:   working threads lie 2, 4, 8 ... apart, so that every warp diverges, and the remainder is slow to compute:
//          with one element a thread it is slower than unrolled_complete, which has 8, in global memory.
// Gains:   global memory is read once and only the partials are written; the input needs no copy, and padding the part
//          with the identity needs no comparison with its size in the loop.
// Order:   tree of the block size: neighbours, then neighbouring pairs; then the same over the partials.
// Needs:   compute capability 7.5, 8 bytes of shared memory per thread.
// See:     Harris, Optimizing Parallel Reduction in CUDA (NVIDIA, 2007), reduction 1, interleaved addressing.
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class T, class A = typename Op::Value>
__global__ void shared_divergent_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
  A* const shared = reinterpret_cast<A*>(memory);  // [blockDim.x]
  const Part part = part_of_block(length, parts, blockDim.x);
  const T* data = rows + part.begin;
  const int tid = threadIdx.x;

  shared[tid] = tid < part.size ? A(data[tid]) : Op::identity();
  __syncthreads();

  for (int stride = 1; stride < int(blockDim.x); stride *= 2) {
    if (tid % (2 * stride) == 0) shared[tid] = Op::combine(shared[tid], shared[tid + stride]);
    __syncthreads();
  }

  if (tid == 0) partials[blockIdx.x] = shared[0];
}

}  // namespace

void shared_divergent(const ReduceArgs& args, Context& context, int threads) {
  reduce_in_passes(args, context, LaunchConfig{threads}, [&]<class Op, class T>(const Pass<Op, const T>& pass) {
    launch(shared_divergent_kernel<Op, T>, pass.blocks, pass.threads, pass.threads * sizeof(typename Op::Value),
           context.stream, pass.rows, pass.partials, pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
