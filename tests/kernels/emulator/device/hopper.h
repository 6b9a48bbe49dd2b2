// What the PTX of Hopper's engines stands for.
//   cp.async.bulk.tensor.3d                         copy_tile
//   wgmma.mma_async, commit_group, wait_group       multiply_async, commit_products, await_products
#pragma once
#include "../machine/hopper.h"

namespace emulator {

// m64n<2 Count>k<32 bytes>, with both operands in shared memory; a's rows lie along m, or b's along n, where it says so.
template <class T, int Count>
EMULATED void multiply_async(uint32_t (&sums)[Count], uint64_t a, uint64_t b, bool add, bool along_m, bool along_n) {
  using namespace torch_reductions;
  constexpr Dtype dtype = std::is_same_v<T, BFloat16> ? Dtype::bfloat16
                          : std::is_same_v<T, Half>   ? Dtype::float16
                          : std::is_same_v<T, int8_t> ? Dtype::int8
                                                      : Dtype::uint8;
  multiply_async(Product{sums, Count, a, b, add, along_m, along_n, dtype});
}

}  // namespace emulator
