#include "async.h"

#include <cstring>

#include "machine.h"
#include "observer.h"
#include "schedule.h"

namespace emulator {
namespace {

#define CALLER (reinterpret_cast<uintptr_t>(__builtin_return_address(0)) - 1)

void check_aligned(const char* what, const void* address, unsigned bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
    fault(std::string("misaligned: ") + what + " needs " + std::to_string(bytes) + "-byte alignment");
}

void land(const Copy& copy) {
  if (copy.from != nullptr) std::memcpy(copy.to, copy.from, copy.bytes);
  else std::memset(copy.to, 0, copy.bytes);
}

void tell_of(const Copy& copy, uintptr_t pc) {
  if (copy.from != nullptr) observer->access_later(copy.from, copy.bytes, false, pc);
  observer->access_later(copy.to, copy.bytes, true, pc);
}

Mbarrier& mbarrier_at(uint64_t* barrier, uintptr_t pc) {
  Block* const holder = holder_of(barrier);
  if (holder == nullptr) fault("an mbarrier that does not stand in shared memory");
  const auto found = holder->mbarriers.find(barrier);
  if (found == holder->mbarriers.end()) fault("an mbarrier that nobody has initialised");
  observer->mbarrier(barrier, pc);
  return found->second;
}

// A phase ends when all have arrived and all bytes have come.
void end_phase(Mbarrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes > 0) return;
  barrier.phase = !barrier.phase;
  barrier.pending = barrier.count;
}

void land_all(Mbarrier& barrier) {
  for (const Copy& copy : barrier.copies) {
    land(copy);
    barrier.bytes -= copy.bytes;
  }
  barrier.copies.clear();
}

}  // namespace

bool happens_at_once() {
  if (options.order == Order::forward) return false;
  return options.order == Order::reverse || random_below(2) == 0;
}

namespace {

void ask_for(Copy copy, uintptr_t pc) {
  if (copy.from != nullptr) observer->access(copy.from, copy.bytes, false, pc);
  observer->access_later(copy.to, copy.bytes, true, pc);
  copy.landed = happens_at_once();
  if (copy.landed) land(copy);
  current->copies.open.push_back(copy);
}

}  // namespace

void cp_async(void* shared, const void* global, unsigned bytes) {
  check_aligned("cp.async", shared, bytes);
  check_aligned("cp.async", global, bytes);
  ask_for({shared, global, bytes}, CALLER);
}

void cp_async_zfill(void* shared, const void* global, unsigned present) {
  check_aligned("cp.async", shared, 16);
  check_aligned("cp.async", global, 16);
  if (present > 16) fault("cp.async of more than 16 bytes");
  if (present > 0) ask_for({shared, global, present}, CALLER);
  if (present < 16) ask_for({static_cast<char*>(shared) + present, nullptr, 16 - present}, CALLER);
}

void cp_async_commit() {
  PendingCopies& copies = current->copies;
  copies.groups.push_back(std::move(copies.open));
  copies.open.clear();
}

void cp_async_wait(unsigned pending) {
  auto& groups = current->copies.groups;
  for (; groups.size() > pending; groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      tell_of(copy, CALLER);
      if (!copy.landed) land(copy);
    }
  }
}

void mbarrier_init(uint64_t* barrier, unsigned count) {
  check_aligned("an mbarrier", barrier, sizeof *barrier);
  observer->access(barrier, sizeof *barrier, true, CALLER);
  *barrier = 0;
  current->block->mbarriers[barrier] = Mbarrier{count, count, 0, false, {}};
}

void mbarrier_arrive(uint64_t* barrier, unsigned expected_bytes) {
  Mbarrier& known = mbarrier_at(barrier, CALLER);
  observer->release_to(barrier);
  if (known.pending == 0) fault("more threads arrive at an mbarrier than it was initialised for");
  known.bytes += expected_bytes;
  known.pending--;
  end_phase(known);
  end_turn(false);
}

void cp_async_mbarrier_arrive(uint64_t* barrier) {
  Mbarrier& known = mbarrier_at(barrier, CALLER);
  PendingCopies& pending = current->copies;
  cp_async_commit();
  for (const std::vector<Copy>& group : pending.groups) {
    for (const Copy& copy : group) {
      tell_of(copy, CALLER);
      if (copy.landed) continue;
      known.bytes += copy.bytes;
      known.copies.push_back(copy);
    }
  }
  pending.groups.clear();
  observer->release_to(barrier);
  if (known.pending == 0) fault("more threads arrive at an mbarrier than it was initialised for");
  known.pending--;
  end_phase(known);
  end_turn(false);
}

bool mbarrier_test(uint64_t* barrier, bool parity) {
  Mbarrier& known = mbarrier_at(barrier, CALLER);
  if (known.pending == 0 && known.phase == parity) {
    land_all(known);
    end_phase(known);
  }
  const bool ended = known.phase != parity;
  if (ended) observer->acquire_from(barrier);
  end_turn(!ended);
  return ended;
}

void mbarrier_wait(uint64_t* barrier, bool parity) {
  while (!mbarrier_test(barrier, parity)) {
  }
}

void copy_bulk(void* shared, const void* global, unsigned bytes, uint64_t* barrier) {
  check_aligned("a bulk copy", shared, 16);
  check_aligned("a bulk copy", global, 16);
  if (bytes % 16 != 0) fault("a bulk copy of " + std::to_string(bytes) + " bytes, which 16 does not divide");
  copy_pieces({{shared, global, bytes}}, barrier, CALLER);
}

void copy_pieces(std::vector<Copy> copies, uint64_t* barrier, uintptr_t pc) {
  Mbarrier& known = mbarrier_at(barrier, pc);
  // Whoever has seen the phase end sees them as writes of this thread; to all others they are races.
  for (const Copy& copy : copies) tell_of(copy, pc);
  observer->release_to(barrier);
  known.copies.insert(known.copies.end(), copies.begin(), copies.end());
  if (happens_at_once()) {
    land_all(known);
    end_phase(known);
  }
}

}  // namespace emulator
