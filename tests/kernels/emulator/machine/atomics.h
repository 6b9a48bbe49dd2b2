// Accesses that other threads may make at the same time, and the fences that make an order of them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

// An atomic operation in two steps: nothing happens between them, and the turn ends after the second.
uint64_t begin_update(const void* address, size_t size);
void end_update(void* address, size_t size, uint64_t bits);

// Words that several blocks share. A load ends the turn: other threads may come before the next one.
uint64_t load_word(const void* address, size_t size);
void store_word(void* address, size_t size, uint64_t bits);

void fence();

}  // namespace emulator
