// The race detector: vector clocks over the accesses that an instrumented kernel tells of (tsan.cpp).
//
// Two accesses to a byte, one of them a write, by two threads, and nothing orders one before the other: that is a race,
// whichever came first in this run. What orders them: barriers for their threads, __syncwarp for its lanes; and a fence,
// an atomic or relaxed access, one by another thread that reads it, and a fence there. Shuffles order nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine.h"

namespace emulator::races {

extern bool enabled;  // in a program that holds instrumented kernels

void begin_launch();
void begin_block(Block& block);
void end_block(Block& block);

// What orders.
void barrier(const std::vector<Thread*>& members);
void warp_barrier(Block& block, unsigned warp, unsigned lanes);
void fence();  // of the running thread
enum class Relaxed { load, store, update };
void relaxed(const void* address, size_t size, Relaxed kind, uintptr_t pc);  // an access that fences around it may use
void release_to(const void* object);  // as with fences around them: mbarrier, cluster barrier
void acquire_from(const void* object);

// What is ordered. pc: of the instruction, for the report.
void access(const void* address, size_t size, bool write, uintptr_t pc);

}  // namespace emulator::races
