#include "atomics.h"

#include <cstring>

#include "machine.h"
#include "observer.h"
#include "schedule.h"

namespace emulator {
namespace {

uint64_t read_bits(const void* address, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, address, size);
  return bits;
}

void check_alignment(const void* address, size_t size) {
  if (reinterpret_cast<uintptr_t>(address) % size != 0)
    fault("misaligned: an atomic access of " + std::to_string(size) + " bytes");
}

#define CALLER (reinterpret_cast<uintptr_t>(__builtin_return_address(0)) - 1)

}  // namespace

uint64_t begin_update(const void* address, size_t size) {
  check_alignment(address, size);
  observer->relaxed(address, size, Relaxed::update, CALLER);
  return read_bits(address, size);
}

void end_update(void* address, size_t size, uint64_t bits) {
  const bool changed = read_bits(address, size) != bits;
  std::memcpy(address, &bits, size);
  current->waits = !changed;
  end_turn(!changed);
}

uint64_t load_word(const void* address, size_t size) {
  check_alignment(address, size);
  observer->relaxed(address, size, Relaxed::load, CALLER);
  const uint64_t bits = read_bits(address, size);
  Seen& seen = current->seen.try_emplace(address, Seen{bits, 0}).first->second;
  seen.times = seen.bits == bits ? seen.times + 1 : 1;
  seen.bits = bits;
  current->waits = seen.times > 2;
  end_turn(current->waits);  // it waits, and others must run; but a thread may look twice and go on
  return bits;
}

void store_word(void* address, size_t size, uint64_t bits) {
  check_alignment(address, size);
  observer->relaxed(address, size, Relaxed::store, CALLER);
  std::memcpy(address, &bits, size);
  current->waits = false;
  // Other blocks may see it before the thread's next store.
  Thread* const thread = current;
  offer_baton(thread->block->slot, options.order == Order::reverse);
  current = thread;
}

void fence() { observer->fence(); }

}  // namespace emulator
