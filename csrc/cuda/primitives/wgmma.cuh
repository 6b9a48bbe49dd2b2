// The tensor cores of Hopper: four warps together multiply tiles in shared memory, accumulate in their registers, and
// continue meanwhile.
//
// d += a b with a of 64 rows, b of N columns and a step of 32 bytes of k: 16 elements of 2 bytes or 32 of 1. Thread t
// of the 128 holds of row t / 32 * 16 + t % 32 / 4, and of the row 8 below, the columns 8 j + t % 4 * 2 and the one
// behind it: in d[4 j] and d[4 j + 1], and d[4 j + 2] and d[4 j + 3]. They are the bits of a float, or an integer: as
// floats the compiler would move them between registers where their bits are needed, and the tensor cores would have to
// wait for that.
#pragma once
#include <type_traits>

#include "../../common/dtype.h"
#include "shared.cuh"

namespace torch_reductions::cuda {

// The major dim of a tile, which runs along its rows (tensor_map.h): k, or the m of a or the n of b. Types of 1 and 4
// bytes are K-major only.
enum class Major { k, mn };

// A tile where wgmma may read it: rows of 128 bytes, permuted as tensor_map.h says. Major::k: one row for each row of
// a, or column of b. Major::mn: one row for each k, of 64 elements of m or n; the next 64 lie `next` bytes further.
__device__ __forceinline__ uint64_t smem_descriptor(const void* tile, Major major, unsigned next) {
  constexpr uint64_t kEightRows = 8 * 128, kSwizzle128B = uint64_t(1) << 62;
  constexpr uint32_t kAddress = (1 << 18) - 1;                 // above it stands which block of a cluster this is
  const uint64_t leading = major == Major::k ? 1 : next >> 4;  // of no meaning along k
  return kSwizzle128B | kEightRows >> 4 << 32 | leading << 16 | (shared_address(tile) & kAddress) >> 4;
}

// Added to a descriptor: the next step of k.
template <Major major>
inline constexpr uint64_t kNextStep = (major == Major::k ? 32 : 16 * 128) >> 4;

// Before the first wgmma, and before each whose accumulators other instructions have written.
__device__ __forceinline__ void warpgroup_arrive() {
#if defined(HOPPER) && !defined(CUDA_ON_CPU)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Closes a group: the products issued since the last one.
__device__ __forceinline__ void warpgroup_commit() {
#ifdef CUDA_ON_CPU
  emulator::warpgroup_commit();
#elif defined(HOPPER)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits until at most `Pending` groups are in flight: the tiles that the others read may be overwritten.
template <int Pending>
__device__ __forceinline__ void warpgroup_wait() {
#ifdef CUDA_ON_CPU
  emulator::warpgroup_wait(Pending);
#elif defined(HOPPER)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#endif
}

// After warpgroup_wait<0>(): the compiler may use the accumulators from here on, and not before.
template <int Count>
__device__ __forceinline__ void fence_operand([[maybe_unused]] uint32_t (&d)[Count]) {
#ifndef CUDA_ON_CPU
#pragma unroll
  for (int i = 0; i < Count; i++) asm volatile("" : "+r"(d[i])::"memory");
#endif
}

// Sets how many registers a thread of this warpgroup has from now on: some warpgroups release what others acquire.
template <int Registers>
__device__ __forceinline__ void setmaxnreg_dec() {
#if defined(HOPPER) && !defined(CUDA_ON_CPU)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}
template <int Registers>
__device__ __forceinline__ void setmaxnreg_inc() {
#if defined(HOPPER) && !defined(CUDA_ON_CPU)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

// The names of the sums, %0, %1, ..., and the sums themselves.
#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define NAMES_30 TEN() TEN(1) TEN(2)
#define NAMES_32 "{" NAMES_30 "%30, %31}"
#define NAMES_60 NAMES_30 TEN(3) TEN(4) TEN(5)
#define NAMES_64 "{" NAMES_60 "%60, %61, %62, %63}"
#define NAMES_128 \
  "{" NAMES_60 TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127}"
#define SUMS_4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)
#define SUMS_32 SUMS_16(0), SUMS_16(16)
#define SUMS_64 SUMS_32, SUMS_16(32), SUMS_16(48)
#define SUMS_128 SUMS_64, SUMS_16(64), SUMS_16(80), SUMS_16(96), SUMS_16(112)

// Operands behind the sums: the descriptors, whether to add to the sums or to zeros, and of 2-byte types the factors'
// signs (1: as they are) and what runs along their rows.
#define MAJORS(a_, b_) ", 1, 1, " a_ ", " b_
#define NO_MAJORS(a_, b_) ""
#define WGMMA(shape, names, sums, a_, b_, add_, majors)                                                       \
  asm volatile("{\n\t.reg .pred add;\n\tsetp.ne.b32 add, " add_ ", 0;\n\twgmma.mma_async.sync.aligned." shape \
               " " names ", " a_ ", " b_ ", add" majors ";\n\t}"                                              \
               : sums                                                                                         \
               : "l"(a), "l"(b), "r"(int(add)), "n"(int(major_a_)), "n"(int(major_b_)))
#define WGMMA_OF_COUNT(types, majors)                                                                             \
  if constexpr (Count == 32) WGMMA("m64n64" types, NAMES_32, SUMS_32, "%32", "%33", "%34", majors("%35", "%36")); \
  else if constexpr (Count == 64)                                                                                 \
    WGMMA("m64n128" types, NAMES_64, SUMS_64, "%64", "%65", "%66", majors("%67", "%68"));                         \
  else WGMMA("m64n256" types, NAMES_128, SUMS_128, "%128", "%129", "%130", majors("%131", "%132"))

// d = a b, or d += a b. T is the type of both factors. All four warps come together.
template <class T, Major major_a_, Major major_b_, int Count>
__device__ __forceinline__ void wgmma(uint32_t (&d)[Count], uint64_t a, uint64_t b, bool add) {
  static_assert(Count == 32 || Count == 64 || Count == 128, "64, 128 or 256 columns");
  static_assert(sizeof(T) == 2 || (major_a_ == Major::k && major_b_ == Major::k));
#ifdef CUDA_ON_CPU
  emulator::wgmma<T>(d, a, b, add, major_a_ == Major::mn, major_b_ == Major::mn);
#elif defined(HOPPER)
  if constexpr (std::is_same_v<T, BFloat16>) {
    WGMMA_OF_COUNT("k16.f32.bf16.bf16", MAJORS);
  } else if constexpr (std::is_same_v<T, Half>) {
    WGMMA_OF_COUNT("k16.f32.f16.f16", MAJORS);
  } else if constexpr (std::is_same_v<T, int8_t>) {
    WGMMA_OF_COUNT("k32.s32.s8.s8", NO_MAJORS);
  } else {
    static_assert(std::is_same_v<T, uint8_t>);
    WGMMA_OF_COUNT("k32.s32.u8.u8", NO_MAJORS);
  }
#endif
}
#undef TEN
#undef NAMES_30
#undef NAMES_32
#undef NAMES_60
#undef NAMES_64
#undef NAMES_128
#undef SUMS_4
#undef SUMS_16
#undef SUMS_32
#undef SUMS_64
#undef SUMS_128
#undef MAJORS
#undef NO_MAJORS
#undef WGMMA
#undef WGMMA_OF_COUNT

}  // namespace torch_reductions::cuda
