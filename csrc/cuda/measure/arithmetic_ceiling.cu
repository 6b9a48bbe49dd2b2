// The ceiling that every product of matrices is compared with: kernels that do one instruction over and over, in
// registers alone, on every multiprocessor.
//
// The harness (torch_reductions/timing.py) times them in turns with the products, so that both have the same clocks.
#include <cstdint>
#include <exception>

#include "../matmul/elements.cuh"
#include "../primitives/launch.h"

namespace torch_reductions::cuda {
namespace {

constexpr int kThreads = 1024, kChains = 16;

// Each thread has chains that wait for nothing but themselves: with 8 warps a scheduler, more than the latency needs.
template <class T>
__global__ void __launch_bounds__(kThreads) multiply_add_only(int64_t steps, T a, T c, T* sink) {
  T chain[kChains];
#pragma unroll
  for (int i = 0; i < kChains; i++) chain[i] = T(threadIdx.x * kChains + i);
#pragma unroll 4
  for (int64_t step = 0; step < steps; step++) {
#pragma unroll
    for (int i = 0; i < kChains; i++) chain[i] = multiply_add(chain[i], a, c);
  }
  T all = chain[0];
#pragma unroll
  for (int i = 1; i < kChains; i++) all += chain[i];
  if (all == T(-1)) *sink = all;  // the compiler cannot know that this never happens, or next to never
}

// How many operations it is, a multiplication and an addition being two.
template <class T>
int64_t run(int blocks, int64_t steps, T a, T c, void* sink, cudaStream_t stream) {
  launch(multiply_add_only<T>, blocks, kThreads, 0, stream, steps, a, c, static_cast<T*>(sink));
  return 2 * steps * kChains * kThreads * blocks;
}

}  // namespace
}  // namespace torch_reductions::cuda

// Runs `steps` steps of an instruction on the current device: FFMA, IMAD or DFMA. sink: 16 bytes. How many operations these
// are in all, or 0 where that cannot be launched.
extern "C" __attribute__((visibility("default"))) long long torch_reductions_arithmetic(int instruction, long long steps,
                                                                                         void* sink, void* stream) {
  using namespace torch_reductions::cuda;
  const auto on = static_cast<cudaStream_t>(stream);
  int device = 0;
  if (steps <= 0 || cudaGetDevice(&device) != cudaSuccess) return 0;
  try {
    const int blocks = multiprocessors(device);
    switch (instruction) {
      case 0: return run<float>(blocks, steps, 0.999f, 0.5f, sink, on);
      case 1: return run<uint32_t>(blocks, steps, 12345, 678, sink, on);
      case 2: return run<double>(blocks, steps, 0.999, 0.5, sink, on);
    }
  } catch (const std::exception&) {
  }
  return 0;
}
