// Barriers in shared memory that count arrivals (from 8.0 on) and bytes (Hopper): a thread that waits need not arrive,
// and copies arrive by themselves.
//
// Phases are numbered from 0; a phase ends when all of its arrivals and all of its bytes have come.
// mbarrier_wait(barrier, p) returns once a phase of parity p has ended and no later one: of a fresh barrier, the one
// "before" phase 0 has parity 1.
#pragma once
#include "shared.cuh"

namespace torch_reductions::cuda {

// By one thread; the others may use it after a __syncthreads(), the TMA needs fence_mbarrier_init() as well.
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, unsigned arrivals) {
#ifdef CUDA_ON_CPU
  emulator::mbarrier_init(barrier, arrivals);
#elif __CUDA_ARCH__ >= 800
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
#endif
}

// Makes initialised barriers visible to the TMA.
__device__ __forceinline__ void fence_mbarrier_init() {
#if defined(HOPPER) && !defined(CUDA_ON_CPU)
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// The thread's reads and writes before it are complete for all threads that see the phase end.
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
#ifdef CUDA_ON_CPU
  emulator::mbarrier_arrive(barrier, 0);
#elif __CUDA_ARCH__ >= 800
  asm volatile("{\n\t.reg .b64 state;\n\tmbarrier.arrive.shared.b64 state, [%0];\n\t}" ::"r"(shared_address(barrier))
               : "memory");
#endif
}

// Arrives when all copies of async.cuh that this thread has issued are complete; the thread continues at once. A thread
// that waits sees the copies, but not this thread's own stores.
__device__ __forceinline__ void cp_async_mbarrier_arrive(uint64_t* barrier) {
#ifdef CUDA_ON_CPU
  emulator::cp_async_mbarrier_arrive(barrier);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

// Arrives (in another block: mbarrier_arrive_remote, cluster.cuh), and makes the phase wait for `bytes` more bytes.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint64_t* barrier, unsigned bytes) {
#ifdef CUDA_ON_CPU
  emulator::mbarrier_arrive(barrier, bytes);
#elif defined(HOPPER)
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}

// Has a phase of that parity ended? If so, what mbarrier_wait promises; its answer is there some time later.
__device__ __forceinline__ bool mbarrier_test(uint64_t* barrier, unsigned parity) {
#ifdef CUDA_ON_CPU
  return emulator::mbarrier_test(barrier, parity);
#elif __CUDA_ARCH__ >= 800
  unsigned ended;
  asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
               : "=r"(ended)
               : "r"(shared_address(barrier)), "r"(parity)
               : "memory");
  return ended != 0;
#else
  return true;
#endif
}

__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, unsigned parity) {
#ifdef CUDA_ON_CPU
  emulator::mbarrier_wait(barrier, parity);
#elif __CUDA_ARCH__ >= 800
#if __CUDA_ARCH__ >= 900
#define TEST "try_wait"  // an attempt lets the thread sleep for a while
#else
#define TEST "test_wait"
#endif
  unsigned ended = 0;
  while (ended == 0) {
    asm volatile("{\n\t.reg .pred p;\n\tmbarrier." TEST ".parity.shared.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(ended)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
  }
#undef TEST
#endif
}

}  // namespace torch_reductions::cuda
