// The counters: what a GPU's memory and warps would be asked for, by instruction.
#pragma once
#include <cstdio>

namespace emulator {

void start_counting();               // instead of looking for races; in an instrumented program
void print_counts(std::FILE* file);  // of every kernel that ran since (tests/kernels/emulator/counts.py reads it)

}  // namespace emulator
