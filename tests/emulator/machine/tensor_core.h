// What one step of Hopper's tensor cores computes, to the bit, for 16-bit factors and float32 sums.
#pragma once
#include <cstdint>

namespace emulator {

enum class Factor { bfloat16, float16 };

// The accumulator plus 16 products.
uint32_t tensor_step(const uint16_t (&a)[16], const uint16_t (&b)[16], uint32_t accumulator, Factor format);

}  // namespace emulator
