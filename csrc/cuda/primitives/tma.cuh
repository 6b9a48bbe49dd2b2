// The Tensor Memory Accelerator (Hopper) copies tiles of tensors to shared memory: one thread issues the copy of a
// tile, an mbarrier tells when it has arrived.
#pragma once
#include "mbarrier.cuh"
#include "tensor_map.h"

namespace torch_reductions::cuda {

// Loads the map's tile that begins at (column, row, outer) to a multiple of 1024 bytes. Elements outside the tensor are
// zeros, which count among the bytes that the barrier expects.
__device__ __forceinline__ void tma_load(void* shared, const CUtensorMap* map, int column, int row, int outer,
                                         uint64_t* barrier) {
#ifdef CUDA_ON_CPU
  emulator::tma_load(shared, map, column, row, outer, barrier, 1u << emulator::cluster_rank());
#elif defined(HOPPER)
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared_address(shared)),
      "l"(map), "r"(column), "r"(row), "r"(outer), "r"(shared_address(barrier))
      : "memory");
#endif
}

// The same to that address in each block of the cluster whose bit is set, with that block's barrier.
__device__ __forceinline__ void tma_load_multicast(unsigned blocks, void* shared, const CUtensorMap* map, int column,
                                                   int row, int outer, uint64_t* barrier) {
#ifdef CUDA_ON_CPU
  emulator::tma_load(shared, map, column, row, outer, barrier, blocks);
#elif defined(HOPPER)
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(shared)),
      "l"(map), "r"(column), "r"(row), "r"(outer), "r"(shared_address(barrier)), "h"(uint16_t(blocks))
      : "memory");
#endif
}

// Prefetches the map itself before its first tile.
__device__ __forceinline__ void prefetch_tensormap([[maybe_unused]] const CUtensorMap* map) {
#if defined(HOPPER) && !defined(CUDA_ON_CPU)
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}

}  // namespace torch_reductions::cuda
