// Blocks that run at the same time and reach one another's shared memory (Hopper). launch.h: launch_clusters
#pragma once
#include "shared.cuh"

namespace torch_reductions::cuda {

// The block's rank in its cluster.
__device__ __forceinline__ int cluster_rank() {
#ifdef CUDA_ON_CPU
  return int(emulator::cluster_rank());
#elif defined(HOPPER)
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return int(rank);
#else
  return 0;
#endif
}

// __syncthreads() of all blocks of the cluster.
__device__ __forceinline__ void cluster_sync() {
#ifdef CUDA_ON_CPU
  emulator::cluster_sync();
#elif defined(HOPPER)
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// Arrives at the mbarrier at the address of `barrier` in block `rank` of the cluster. It signals that something has
// been read: to publish writes to the other block, the scope would have to be the cluster, at the cost of a fence.
__device__ __forceinline__ void mbarrier_arrive_remote(uint64_t* barrier, int rank) {
#ifdef CUDA_ON_CPU
  emulator::mbarrier_arrive(reinterpret_cast<uint64_t*>(emulator::in_cluster(barrier, unsigned(rank))), 0);
#elif defined(HOPPER)
  asm volatile(
      "{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
#endif
}

}  // namespace torch_reductions::cuda
