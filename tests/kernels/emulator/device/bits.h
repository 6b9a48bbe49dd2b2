// Values as the 64 bits that the machine passes around.
#pragma once
#include <cstdint>

#include "emulated.h"

namespace emulator {

template <class T>
EMULATED uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
EMULATED T from_bits(uint64_t bits) {
  static_assert(sizeof(T) <= 8);
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace emulator
