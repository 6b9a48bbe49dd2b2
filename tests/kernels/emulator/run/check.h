// Runs a case on the emulated GPU and compares it with the CPU.
#pragma once
#include <cstdint>
#include <string>

#include "case.h"

namespace emulator {

// Empty, or what is wrong; the digest of the GPU's results. `once`: without the repetitions that would show what a run
// leaves behind.
std::string check(const Case& c, uint64_t& digest, bool once = false);

}  // namespace emulator
