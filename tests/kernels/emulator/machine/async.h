// Copies that take their time: cp.async, bulk copies, and the mbarriers that tell when they have come.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace emulator {

struct Copy {
  void* to;
  const void* from;  // null: zeros
  unsigned bytes;
  bool landed = false;
};

// cp.async of one thread. Its write may come at any time from the asking to the wait: it must be ordered behind what was
// done before the one, and nobody can count on it before the other.
struct PendingCopies {
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;  // committed
};

struct Mbarrier {
  unsigned count = 0, pending = 0;  // arrivals
  int64_t bytes = 0;                // that are still to come
  bool phase = false;
  std::vector<Copy> copies;  // on their way
};
using Mbarriers = std::map<const void*, Mbarrier>;

void cp_async(void* shared, const void* global, unsigned bytes);          // 4, 8 or 16; where global is null, zeros
void cp_async_zfill(void* shared, const void* global, unsigned present);  // of 16 bytes; the others are zeros
void cp_async_commit();
void cp_async_wait(unsigned pending);  // until so many of the thread's groups, at most, are on their way

void mbarrier_init(uint64_t* barrier, unsigned count);
void mbarrier_arrive(uint64_t* barrier, unsigned expected_bytes);
void cp_async_mbarrier_arrive(uint64_t* barrier);    // cp.async of this thread that are on their way
bool mbarrier_test(uint64_t* barrier, bool parity);  // has the phase of that parity ended?
void mbarrier_wait(uint64_t* barrier, bool parity);
void copy_bulk(void* shared, const void* global, unsigned bytes, uint64_t* barrier);
void copy_pieces(std::vector<Copy> copies, uint64_t* barrier, uintptr_t pc);  // that arrive together; of any size

// Of what may happen soon or late, as the schedule has it: forward as late as can be, reverse at once.
bool happens_at_once();

}  // namespace emulator
