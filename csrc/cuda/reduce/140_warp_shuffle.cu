// Changes: a thread folds its elements of a grid-stride loop in a register; warps then fold by shuffles, and shared
//          memory only carries one value per warp.
// Costs:   still one launch for each pass; the partials go through global memory between them.
// Gains:   a fixed number of blocks, so two passes serve any length; one barrier per block instead of one per step.
// Order:   grid stride from left to right, then halves of the warp, then halves over the warps; the same over partials.
// Needs:   compute capability 7.5, 256 bytes of shared memory per block.
// See:     Luitjens, Faster Parallel Reductions on Kepler (NVIDIA technical blog, 2014).
#include "textbook.cuh"

namespace torch_reductions::cuda::reduce {
namespace {

// Lane 0 gets the fold of the warp.
template <class Op, class A>
__device__ A warp_fold(A value) {
#pragma unroll
  for (int delta = 16; delta > 0; delta /= 2) value = Op::combine(value, __shfl_down_sync(~0u, value, delta));
  return value;
}

// Thread 0 gets the fold of the block.
template <class Op, class A>
__device__ A block_fold(A value) {
  __shared__ A warps[kMaxThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = warp_fold<Op>(value);
  if (lane == 0) warps[warp] = value;
  __syncthreads();
  if (warp == 0) value = warp_fold<Op>(lane < int(blockDim.x) / 32 ? warps[lane] : Op::identity());
  return value;
}

template <class Op, class T, class A = typename Op::Value>
__global__ void warp_shuffle_kernel(const T* rows, A* partials, int64_t length, unsigned parts) {
  const int64_t row = blockIdx.x / parts, part = blockIdx.x % parts;
  const T* data = rows + row * length;
  const int tid = threadIdx.x;

  A value = Op::identity();
#pragma unroll 4
  for (int64_t i = part * blockDim.x + tid; i < length; i += int64_t(parts) * blockDim.x) {
    value = Op::combine(value, A(data[i]));
  }
  value = block_fold<Op>(value);

  if (tid == 0) partials[blockIdx.x] = value;
}

}  // namespace

void warp_shuffle(const ReduceArgs& args, Context& context, int threads) {
  const LaunchConfig config{.block_size = threads, .each = 8, .max_parts = 1024};
  reduce_in_passes(args, context, config, [&]<class Op, class T>(const Pass<Op, const T>& pass) {
    launch(warp_shuffle_kernel<Op, T>, pass.blocks, pass.threads, 0, context.stream, pass.rows, pass.partials,
           pass.length, pass.parts);
  });
}

}  // namespace torch_reductions::cuda::reduce
