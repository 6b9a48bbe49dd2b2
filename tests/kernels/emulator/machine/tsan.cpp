// What a compiler calls at each access under -fsanitize=thread. Its own run-time library is not linked: these functions
// take its place, and hand the accesses of kernels to the observer. What it calls
// in each basic block and at comparisons (-fsanitize-coverage=trace-pc,trace-cmp) goes there, too.
#include "fiber.h"
#include "observer.h"

namespace {

uintptr_t pc_before(void* return_address) { return reinterpret_cast<uintptr_t>(return_address) - 1; }

// A volatile access orders nothing. In global memory it is like a relaxed one, in shared memory like any other.
void volatile_access(void* address, size_t size, bool write, uintptr_t pc) {
  using namespace emulator;
  if (current == nullptr || on_a_stack(address)) return;
  if (current->block->shared.holds(address)) return observer->access(address, size, write, pc);
  observer->relaxed(address, size, write ? Relaxed::store : Relaxed::load, pc);
  if (!write) end_turn(true);
}

void compares(uintptr_t pc) {
  if (emulator::current != nullptr) emulator::observer->compares(pc);
}

}  // namespace

#define PC pc_before(__builtin_return_address(0))
#define ACCESSES(size)                                                                          \
  void __tsan_read##size(void* p) { emulator::observer->access(p, size, false, PC); }           \
  void __tsan_write##size(void* p) { emulator::observer->access(p, size, true, PC); }           \
  void __tsan_unaligned_read##size(void* p) { emulator::observer->access(p, size, false, PC); } \
  void __tsan_unaligned_write##size(void* p) { emulator::observer->access(p, size, true, PC); } \
  void __tsan_volatile_read##size(void* p) { volatile_access(p, size, false, PC); }             \
  void __tsan_volatile_write##size(void* p) { volatile_access(p, size, true, PC); }             \
  void __tsan_unaligned_volatile_read##size(void* p) { volatile_access(p, size, false, PC); }   \
  void __tsan_unaligned_volatile_write##size(void* p) { volatile_access(p, size, true, PC); }

#define COMPARES(name, T) \
  void __sanitizer_cov_trace_##name(T, T) { compares(PC); }

extern "C" {
COMPARES(cmp1, uint8_t)
COMPARES(cmp2, uint16_t)
COMPARES(cmp4, uint32_t)
COMPARES(cmp8, uint64_t)
COMPARES(const_cmp1, uint8_t)
COMPARES(const_cmp2, uint16_t)
COMPARES(const_cmp4, uint32_t)
COMPARES(const_cmp8, uint64_t)
COMPARES(cmpf, float)
COMPARES(cmpd, double)
void __sanitizer_cov_trace_switch(uint64_t, void*) { compares(PC); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void* p, size_t size) { emulator::observer->access(p, size, false, PC); }
void __tsan_write_range(void* p, size_t size) { emulator::observer->access(p, size, true, PC); }
void __tsan_init() {  // each instrumented file calls it at the start
  emulator::is_instrumented = true;
  emulator::observer = &emulator::race_detector();
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __sanitizer_cov_trace_pc() {
  if (emulator::current != nullptr) emulator::observer->reaches(PC);
}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}
