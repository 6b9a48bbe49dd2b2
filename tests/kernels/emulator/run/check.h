// Runs a case on the emulated GPU and compares it with the CPU.
#pragma once
#include <string>

#include "case.h"

namespace emulator {

// Empty, or what is wrong.
std::string check(const Case& c);

}  // namespace emulator
