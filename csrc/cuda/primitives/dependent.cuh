// Launches whose blocks start while the one before still runs (launch.h: launch_dependent). Before 9.0 they do not.
#pragma once

namespace torch_reductions::cuda {

// Waits for all blocks of the launch before, and for what they have written. A dependent kernel begins with it.
__device__ __forceinline__ void await_launch_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Once every block has said so, or has ended, the blocks of a dependent launch may start.
__device__ __forceinline__ void start_next_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace torch_reductions::cuda
