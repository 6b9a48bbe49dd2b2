// Shared memory: the thread-local storage of the block's OS thread. `__shared__` is `thread_local`, so the program's
// thread-local segment holds every shared array, and `memory`, the array whose size a launch chooses.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

inline constexpr size_t kDynamicBytes = 232448;  // the most that a block of compute capability 9.0 may ask for

// The segment of one OS thread, with `memory` as offsets into it.
struct SharedMemory {
  char* begin;
  size_t size, dynamic_begin, dynamic_end;

  size_t offset(const void* address) const { return size_t(static_cast<const char*>(address) - begin); }
  bool holds(const void* address) const { return offset(address) < size; }
};

void prepare_shared_memory();       // once, before processes are forked: what they have in common
SharedMemory find_shared_memory();  // of the calling OS thread

// Garbage is NaN as any floating type, and a large number as any other, so that its use shows.
inline constexpr uint32_t kGarbage = 0x7ff7a5a5;
bool is_garbage(const char* byte);

// Garbage everywhere. Beyond the launch's own bytes of `memory` nothing may be touched.
void fill_shared_memory(SharedMemory& shared, size_t dynamic_bytes);
void release_shared_memory(const SharedMemory& shared);

}  // namespace emulator
