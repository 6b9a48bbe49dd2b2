// Who is next: every choice that the options leave open, made by one generator of random numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "options.h"

namespace emulator {

void begin_schedule();              // of a process: from the seed
uint64_t random_below(uint64_t n);  // 0 ... n - 1
void shuffle_order(std::vector<unsigned>& order);

// The blocks' threads of the operating system take turns: one holds the baton, the others sleep.
void begin_turns(int slots);
void wait_for_baton(int slot);
// Passes the baton on where the schedule says so; `stuck`: this block can do nothing before another one does something.
void offer_baton(int slot, bool stuck);
void leave_turns(int slot);  // the slot has no more work

}  // namespace emulator
