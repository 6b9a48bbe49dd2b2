// The ceiling that every reduction is compared with: kernels that read the bytes and do nothing else.
//
// Which block size, how many loads in flight and which cache policy are fastest depends on the size and on the GPU, so
// the harness (torch_reductions/_measure/timing.py) tries them all and keeps the best.
#include <cstdint>
#include <exception>

#include "../primitives/launch.h"

namespace torch_reductions::cuda::measure {
namespace {

enum class Policy : int { plain, evict_first, l2_only };

template <Policy kPolicy>
__device__ __forceinline__ uint4 load(const uint4* p) {
  if constexpr (kPolicy == Policy::evict_first) return __ldcs(p);
  else if constexpr (kPolicy == Policy::l2_only) return __ldcg(p);
  else return *p;
}

// Each thread reads kLoads vectors, a block apart, all loaded before the first is used; the last block is guarded.
template <int kLoads, Policy kPolicy>
__global__ void __launch_bounds__(512) read_only(const uint4* data, int64_t vectors, int tail_bytes, uint4* sink) {
  const int64_t first = int64_t(blockIdx.x) * blockDim.x * kLoads + threadIdx.x;
  const bool whole = (int64_t(blockIdx.x) + 1) * blockDim.x * kLoads <= vectors;
  uint4 v[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; i++) {
    const int64_t at = first + int64_t(i) * blockDim.x;
    v[i] = whole || at < vectors ? load<kPolicy>(data + at) : make_uint4(0, 0, 0, 0);
  }
  uint4 all = v[0];
#pragma unroll
  for (int i = 1; i < kLoads; i++) {
    all.x ^= v[i].x;
    all.y ^= v[i].y;
    all.z ^= v[i].z;
    all.w ^= v[i].w;
  }
  if (blockIdx.x == 0 && threadIdx.x < tail_bytes) {
    all.x ^= reinterpret_cast<const uint8_t*>(data + vectors)[threadIdx.x];
  }
  // The compiler cannot know that this never happens (once in 2^128 threads), so it keeps the loads.
  if (all.x == 0x9e3779b9 && all.y == 0x7f4a7c15 && all.z == 0xf39cc060 && all.w == 0x5cedc834) *sink = all;
}

using Kernel = void (*)(const uint4*, int64_t, int, uint4*);

template <int kLoads>
constexpr Kernel kPolicies[] = {read_only<kLoads, Policy::plain>, read_only<kLoads, Policy::evict_first>,
                                read_only<kLoads, Policy::l2_only>};

Kernel kernel_of(int loads, int policy) {
  if (policy < 0 || policy > int(Policy::l2_only)) return nullptr;
  switch (loads) {
    case 1: return kPolicies<1>[policy];
    case 2: return kPolicies<2>[policy];
    case 4: return kPolicies<4>[policy];
    case 8: return kPolicies<8>[policy];
  }
  return nullptr;
}

}  // namespace
}  // namespace torch_reductions::cuda::measure

// Reads `bytes` bytes from p (16-byte aligned) on the current device. threads: a multiple of 32 up to 512; loads: 1, 2,
// 4 or 8; policy: 0 plain, 1 evict first, 2 not through L1; sink: 16 bytes. 0, or 1 where that cannot be launched.
extern "C" __attribute__((visibility("default"))) int torch_reductions_read(const void* p, long long bytes, int threads,
                                                                            int loads, int policy, void* sink,
                                                                            void* stream) {
  using namespace torch_reductions::cuda;
  using namespace torch_reductions::cuda::measure;
  const Kernel kernel = kernel_of(loads, policy);
  if (kernel == nullptr || bytes <= 0 || threads <= 0 || threads > 512 || threads % 32 != 0) return 1;
  if (reinterpret_cast<uintptr_t>(p) % 16 != 0) return 1;
  const int64_t vectors = bytes / 16, in_block = int64_t(threads) * loads;
  const int64_t blocks = vectors == 0 ? 1 : (vectors + in_block - 1) / in_block;
  try {
    launch(kernel, blocks, unsigned(threads), 0, static_cast<cudaStream_t>(stream), static_cast<const uint4*>(p),
           vectors, int(bytes % 16), static_cast<uint4*>(sink));
  } catch (const std::exception&) {
    return 1;
  }
  return 0;
}
