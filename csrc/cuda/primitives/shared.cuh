// Dynamic shared memory, the addresses that Hopper's engines know shared memory by, and whether this is Hopper's code.
#pragma once
#include <cstdint>

// Defined where wgmma and the other instructions of Hopper compile: in device code for 9.0a only. Elsewhere their
// wrappers are empty, and so is a kernel made of them.
#if defined(CUDA_ON_CPU) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HOPPER 1
#endif

namespace torch_reductions::cuda {

extern __shared__ uint4 memory[];  // the block's dynamic shared memory: its size is the launch's

__device__ __forceinline__ uint32_t shared_address(const void* p) {
#ifdef CUDA_ON_CPU
  return emulator::shared_address(p);
#else
  return uint32_t(__cvta_generic_to_shared(p));
#endif
}

}  // namespace torch_reductions::cuda
