// Copies from global to shared memory that pass no register: a thread asks for them, goes on, and waits later.
#pragma once
#include <cstdint>
#include <cstring>

namespace torch_reductions::cuda {

// 16 aligned bytes. Before 8.0 an ordinary load and store.
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
#ifdef CUDA_ON_CPU
  emulator::copy_async(shared, global, 16);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(unsigned(__cvta_generic_to_shared(shared))),
               "l"(global)
               : "memory");
#else
  *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
#endif
}

// Closes a group: the copies that this thread asked for since the last one.
__device__ __forceinline__ void commit_copies() {
#ifdef CUDA_ON_CPU
  emulator::commit_copies();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `Pending` of this thread's groups are on the way; other threads' copies need a barrier too.
template <int Pending>
__device__ __forceinline__ void await_copies() {
#ifdef CUDA_ON_CPU
  emulator::await_copies(Pending);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace torch_reductions::cuda
