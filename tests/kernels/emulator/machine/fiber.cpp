#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "report.h"

#ifndef __x86_64__
#error "the emulator's fibers are written for x86-64"
#endif

// The registers that a call preserves, the stack pointer last. frame_of() and prepare_stack() know this layout.
asm(R"(
.text
.globl emulator_switch
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, .-emulator_switch
)");

namespace emulator {
namespace {

constexpr size_t kStacks = 16384, kGuardBytes = 4096;

// One range of addresses for all of them, so that one comparison tells a thread's own memory from the rest.
struct Pool {
  char* begin = nullptr;
  size_t used = 0;
  std::vector<char*> free;
} pool;

}  // namespace

char* take_stack() {
  if (pool.begin == nullptr) {
    void* memory = mmap(nullptr, kStacks * kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fault("no address space for the threads' stacks");
    pool.begin = static_cast<char*>(memory);
  }
  if (!pool.free.empty()) {
    char* stack = pool.free.back();
    pool.free.pop_back();
    return stack;
  }
  if (pool.used == kStacks) fault("more threads are resident at once than the emulator has stacks for");
  char* stack = pool.begin + pool.used++ * kStackBytes;
  mprotect(stack, kGuardBytes, PROT_NONE);
  return stack;
}

void give_back_stack(char* stack) { pool.free.push_back(stack); }

bool on_a_stack(const void* address) {
  const auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(pool.begin);
  return pool.begin != nullptr && offset < kStacks * kStackBytes;
}

void* prepare_stack(char* stack, void (*entry)()) {
  void** top = reinterpret_cast<void**>(stack + kStackBytes);
  *--top = nullptr;  // as if called from nowhere: the stack pointer is aligned as at a function's start
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  return top;
}

Frame frame_of(void* stack_pointer) {
  void** saved = static_cast<void**>(stack_pointer);
  return {static_cast<void* const*>(saved[5]), saved[6]};
}

}  // namespace emulator
