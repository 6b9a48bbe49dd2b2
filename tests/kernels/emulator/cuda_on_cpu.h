// Included before the first line of every .cu file: CUDA's own headers, and what nvcc would add to them, for g++.
#pragma once
#ifdef __CUDACC__
#error "for the host's compiler"
#endif
#define CUDA_ON_CPU 1

#include <cuda_runtime.h>

#include <memory>  // its attributes have the names of CUDA's decorations

#include "device/async.h"
#include "device/atomics.h"
#include "device/barriers.h"
#include "device/hopper.h"
#include "device/intrinsics.h"
#include "device/launch.h"
#include "device/memory.h"
#include "device/mma.h"
#include "device/warp.h"

#undef __constant__
#undef __shared__
#undef __launch_bounds__
#undef __forceinline__
#undef __noinline__
#define __constant__ __attribute__((section("constant_memory")))  // where machine/counts.cpp finds them
#define __shared__ thread_local                                   // a block has an OS thread of its own
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))

#define threadIdx (emulator::thread_index())
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_shape())
#define gridDim (emulator::grid_shape())
#define warpSize 32

#ifdef EMULATED_TYPES  // build.py: those of the cases that every build runs. The others would double the compiler's time.
namespace emulator {

template <class T, class... Types>
inline constexpr bool kOneOf = (std::is_same_v<T, Types> || ...);

}  // namespace emulator

namespace torch_reductions {

template <class Body>
void with_emulated_storage(Dtype dtype, Body&& body) {
  with_storage(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (emulator::kOneOf<T, EMULATED_TYPES>) body(type);
    else emulator::fault("this build has no kernels of the type: tests/kernels/emulator/build.py");
  });
}

}  // namespace torch_reductions
#define with_storage with_emulated_storage
#endif
