// Runs a case on the emulated GPU and compares it with the CPU.
#pragma once
#include <cstdint>
#include <string>

#include "case.h"

namespace emulator {

// Empty, or what is wrong; the digest of the GPU's results.
std::string check(const Case& c, uint64_t& digest);

}  // namespace emulator
