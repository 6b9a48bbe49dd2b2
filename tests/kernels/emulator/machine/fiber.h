// Fibers: a stack for each thread of a block, and one function that goes from one stack to another.
#pragma once
#include <cstddef>

namespace emulator {

// Saves where the caller stands in *from and goes on where `to` was saved.
extern "C" void emulator_switch(void** from, void* to);

inline constexpr size_t kStackBytes = 256 << 10;  // of address space; a page that nothing touches costs nothing

// A stack from the pool; below it lies a page that may not be touched.
char* take_stack();
void give_back_stack(char* stack);
bool on_a_stack(const void* address);  // of any fiber: local memory in CUDA's words

// What emulator_switch takes to begin entry() on the stack. entry() must never return.
void* prepare_stack(char* stack, void (*entry)());

// Where a suspended fiber stands, for a backtrace.
struct Frame {
  void* const* base;  // the frame pointer: the caller's frame pointer and return address lie here
  void* return_address;
};
Frame frame_of(void* stack_pointer);

}  // namespace emulator
