// What the PTX of Hopper's engines stands for.
//   cp.async.bulk.tensor.3d                         tma_load
//   wgmma.mma_async, commit_group, wait_group       wgmma, warpgroup_commit, warpgroup_wait
#pragma once
#include "../machine/hopper.h"

namespace emulator {

// m64n<2 Count>k<32 bytes>, with both operands in shared memory; a's rows lie along m, or b's along n, where it says so.
template <class T, int Count>
EMULATED void wgmma(uint32_t (&sums)[Count], uint64_t a, uint64_t b, bool add, bool mn_major_a, bool mn_major_b) {
  using namespace torch_reductions;
  constexpr Dtype dtype = std::is_same_v<T, BFloat16> ? Dtype::bfloat16
                          : std::is_same_v<T, Half>   ? Dtype::float16
                          : std::is_same_v<T, int8_t> ? Dtype::int8
                                                      : Dtype::uint8;
  wgmma(Product{sums, Count, a, b, add, mn_major_a, mn_major_b, dtype});
}

}  // namespace emulator
