// Changes: each block draws a ticket after writing its partial; the one that draws a row's last folds its partials.
// Costs:   a fence and an atomic per block, and counters that must be zero: they wrap around to zero by themselves.
// Gains:   one launch for any length; no kernel waits for another to end, only the last block for the others.
// Order:   grid stride from left to right, then halves of the warp, then halves over the warps; the same over partials.
// Needs:   compute capability 7.5, 256 bytes of shared memory per block.
// See:     Wilt, The CUDA Handbook (2013), chapter 12, "Single-Pass Reduction".
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

// Publishes the block's partial (thread 0 has it). True in the last of a row's blocks to come here: it sees them all.
template <class A>
__device__ bool draw_last_ticket(A* partial, A value, unsigned* ticket, unsigned parts) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    *partial = value;
    __threadfence();                                   // the partial before the ticket
    last = atomicInc(ticket, parts - 1) == parts - 1;  // the last ticket wraps the counter around to 0
    __threadfence();                                   // the ticket before the others' partials
  }
  __syncthreads();
  return last;
}

template <class Op, class T, class A = typename Op::Value>
__global__ void single_pass_kernel(const T* rows, A* partials, unsigned* tickets, RowOutput<A> output, int64_t length,
                                   unsigned parts) {
  const int64_t row = blockIdx.x / parts, part = blockIdx.x % parts;
  const T* data = rows + row * length;
  const int tid = threadIdx.x;

  A value = Op::identity();
#pragma unroll 4
  for (int64_t i = part * blockDim.x + tid; i < length; i += int64_t(parts) * blockDim.x) {
    value = Op::combine(value, A(data[i]));
  }
  value = block_fold<Op>(value);

  bool last = true;
  if (parts > 1) {
    last = draw_last_ticket(&partials[blockIdx.x], value, &tickets[row], parts);
    if (last) {
      value = Op::identity();
      for (unsigned i = tid; i < parts; i += blockDim.x) value = Op::combine(value, partials[row * parts + i]);
      value = block_fold<Op>(value);
    }
  }
  if (last && tid == 0) output.store(row, value);
}

}  // namespace

void single_pass(const ReduceArgs& args, Context& context, int threads) {
  const LaunchConfig config{.block_size = threads, .each = 8, .max_parts = 1024};
  with_operator(args, [&]<class T, class Op>(std::type_identity<T>, std::type_identity<Op>) {
    using A = typename Op::Value;
    const int64_t parts = config.parts(args.length), step = kMaxBlocks / parts;
    A* partials = parts > 1 ? workspace<A>(context, args.outer * parts) : nullptr;
    unsigned* tickets = parts > 1 ? context.counters(args.outer) : nullptr;
    // One launch, except for more rows than a grid has blocks.
    for (int64_t row = 0; row < args.outer; row += step) {
      const T* rows = static_cast<const T*>(args.input) + row * args.length;
      const int64_t blocks = min(step, args.outer - row) * parts;
      launch(single_pass_kernel<Op, T>, unsigned(blocks), config.threads(args.length), 0, context.stream, rows,
             partials + row * parts, tickets + row, output_of<A>(args, row), args.length, parts);
    }
  });
}

}  // namespace torch_reductions::cuda::reduce
