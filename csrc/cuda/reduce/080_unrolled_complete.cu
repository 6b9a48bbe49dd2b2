// Changes: the block size is a template parameter, so that the compiler unrolls the loop over the strides as well.
// Costs:   one kernel for each block size, from 64 to 1024; without a given one it is 64 for short rows, else 512.
// Gains:   no loop counter, no comparison with a run-time block size; the strides are constants in the addresses. The
//          book's GPU, of 2010, gained a twentieth; an H100 gains nothing (docs/ladder.md, Book and machine).
// Order:   8 elements that lie a block apart from left to right, then halves; then the same over the partials.
// Needs:   compute capability 7.5.
// See:     Cheng, Grossman, McKercher, Professional CUDA C Programming (2014), chapter 3, "Unrolling Loops".
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

constexpr int kEach = 8;

template <class Op, class A, int kThreads>
__global__ void unrolled_complete_kernel(A* rows, A* partials, int64_t length, unsigned parts) {
  const Part part = part_of_block(length, parts, kEach * kThreads);
  A* data = rows + part.begin;
  const int tid = threadIdx.x;

  if (tid < part.size) {
    A values[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = tid + k * kThreads;
      values[k] = i < part.size ? data[i] : Op::identity();
    }
#pragma unroll
    for (int k = 1; k < kEach; ++k) values[0] = Op::combine(values[0], values[k]);
    data[tid] = values[0];
  }
  __syncthreads();

#pragma unroll
  for (int stride = kThreads / 2; stride > 32; stride /= 2) {
    if (tid < stride && tid + stride < part.size) data[tid] = Op::combine(data[tid], data[tid + stride]);
    __syncthreads();
  }

  if (tid < 32) {
#pragma unroll
    for (int stride = 32; stride > 0; stride /= 2) {
      if (tid < stride && tid + stride < part.size) data[tid] = Op::combine(data[tid], data[tid + stride]);
      __syncwarp();
    }
  }

  if (tid == 0) partials[blockIdx.x] = data[0];
}

}  // namespace

void unrolled_complete(const ReduceArgs& args, Context& context, int threads) {
  const LaunchConfig config{.block_size = threads, .each = kEach, .growth = 8};
  reduce_in_place(args, context, config, [&]<class Op, class A>(const Pass<Op, A>& pass) {
    with_threads(pass.threads, [&]<int kThreads>(std::integral_constant<int, kThreads>) {
      launch(unrolled_complete_kernel<Op, A, kThreads>, pass.blocks, kThreads, 0, context.stream, pass.rows,
             pass.partials, pass.length, pass.parts);
    });
  });
}

}  // namespace torch_reductions::cuda::reduce
