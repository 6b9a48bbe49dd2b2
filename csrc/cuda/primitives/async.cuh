// Asynchronous copies from global to shared memory (cp.async): a thread issues them, continues, and waits later.
#pragma once
#include <cstdint>
#include <cstring>

namespace torch_reductions::cuda {

// 4, 8 or 16 aligned bytes. Before 8.0 an ordinary load and store.
template <int Bytes = 16>
__device__ __forceinline__ void cp_async(void* shared, const void* global) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
#ifdef CUDA_ON_CPU
  emulator::cp_async(shared, global, Bytes);
#elif __CUDA_ARCH__ >= 800
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(Bytes) : "memory");
#else
  if constexpr (Bytes == 16) *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
  else if constexpr (Bytes == 8) *static_cast<uint2*>(shared) = *static_cast<const uint2*>(global);
  else *static_cast<unsigned*>(shared) = *static_cast<const unsigned*>(global);
#endif
}

// An element: of less than 4 bytes, or if not Async, by an ordinary load and store.
template <class T, bool Async = true>
__device__ __forceinline__ void copy_one(void* to, const void* from) {
  if constexpr (Async && sizeof(T) >= 4) cp_async<sizeof(T)>(to, from);
  else *static_cast<T*>(to) = *static_cast<const T*>(from);
}

// The same if `wanted`: one predicated instruction, so that no branch stands between the multiplications around it.
// Copies that nobody reads are better left out: where lanes copy the same bytes, each takes as long as all together.
template <int Bytes = 16>
__device__ __forceinline__ void cp_async_if(bool wanted, void* shared, const void* global) {
#if !defined(CUDA_ON_CPU) && __CUDA_ARCH__ >= 800
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  if constexpr (Bytes == 16)
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t@p cp.async.cg.shared.global [%0], [%1], 16;\n\t}" ::"r"(to),
        "l"(global), "r"(int(wanted))
        : "memory");
  else
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t@p cp.async.ca.shared.global [%0], [%1], %3;\n\t}" ::"r"(to),
        "l"(global), "r"(int(wanted)), "n"(Bytes)
        : "memory");
#else
  if (wanted) cp_async<Bytes>(shared, global);
#endif
}

// The first `present` of 16 aligned bytes, and zeros after them; if `present` is 0 nothing is read.
__device__ __forceinline__ void cp_async_zfill(void* shared, const void* global, int present) {
#ifdef CUDA_ON_CPU
  emulator::cp_async_zfill(shared, global, unsigned(present));
#elif __CUDA_ARCH__ >= 800
  const unsigned to = unsigned(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(present) : "memory");
#else
  for (int i = 0; i < 16; i++)
    static_cast<char*>(shared)[i] = i < present ? static_cast<const char*>(global)[i] : char(0);
#endif
}

// Closes a group: the copies that this thread has issued since the last one.
__device__ __forceinline__ void cp_async_commit() {
#ifdef CUDA_ON_CPU
  emulator::cp_async_commit();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `Pending` of this thread's groups are in flight; other threads' copies need a barrier too.
template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
#ifdef CUDA_ON_CPU
  emulator::cp_async_wait(Pending);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

// Prefetches the cache line around p into the L2.
__device__ __forceinline__ void prefetch_to_l2([[maybe_unused]] const void* p) {
#ifndef CUDA_ON_CPU
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#endif
}

}  // namespace torch_reductions::cuda
