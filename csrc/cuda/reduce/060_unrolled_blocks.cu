// Changes: a block reduces kEach blocks of data (2, 4 or 8): each thread first adds kEach elements in registers.
// Costs:   fewer blocks, so a short input no longer fills the device; more registers per thread.
// Gains:   kEach independent loads in flight per thread, and most of the work is done before the first barrier.
// Order:   kEach elements that lie a block apart from left to right, then halves; then the same over the partials.
// Needs:   compute capability 7.5.
// See:     Cheng, Grossman, McKercher, Professional CUDA C Programming (2014), chapter 3, "Unrolling Loops".
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

template <class Op, class A, int kEach>
__global__ void unrolled_blocks_kernel(A* rows, A* partials, int64_t length, unsigned parts) {
  const Part part = part_of_block(length, parts, kEach * blockDim.x);
  A* data = rows + part.begin;
  const int tid = threadIdx.x;

  if (tid < part.size) {
    A values[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = tid + k * blockDim.x;
      values[k] = i < part.size ? data[i] : Op::identity();
    }
#pragma unroll
    for (int k = 1; k < kEach; ++k) values[0] = Op::combine(values[0], values[k]);
    data[tid] = values[0];
  }
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (tid < stride && tid + stride < part.size) data[tid] = Op::combine(data[tid], data[tid + stride]);
    __syncthreads();
  }

  if (tid == 0) partials[blockIdx.x] = data[0];
}

template <int kEach>
void unrolled_blocks(const ReduceArgs& args, Context& context) {
  const LaunchConfig config{.block_size = 0, .each = kEach};
  reduce_in_place(args, context, config, [&]<class Op, class A>(const Pass<Op, A>& pass) {
    launch(unrolled_blocks_kernel<Op, A, kEach>, pass.blocks, pass.threads, 0, context.stream, pass.rows, pass.partials,
           pass.length, pass.parts);
  });
}

}  // namespace

void unrolled_blocks_2(const ReduceArgs& args, Context& context) { unrolled_blocks<2>(args, context); }
void unrolled_blocks_4(const ReduceArgs& args, Context& context) { unrolled_blocks<4>(args, context); }
void unrolled_blocks_8(const ReduceArgs& args, Context& context) { unrolled_blocks<8>(args, context); }

}  // namespace torch_reductions::cuda::reduce
