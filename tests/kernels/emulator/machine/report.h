// How a fault is told: what, in which kernel, block and thread, at which lines, under which schedule. The first fault
// ends the process: there is nothing to clean up, since the runner gives each case a process of its own.
#pragma once
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

namespace emulator {

using Place = std::source_location;  // of a call in a kernel: a default argument
struct Thread;

inline constexpr int kFaultExit = 3;  // the exit status

// About the running thread, whose backtrace follows; or, outside of kernels, about the launch.
[[noreturn]] void fault(const std::string& what);
// About a thread that waits.
[[noreturn]] void fault(const std::string& what, const Thread& thread);
// With places that the caller has described.
[[noreturn]] void fault_with(const std::string& what, const std::vector<std::string>& lines);

std::string text_of(const Place& place);  // file:line, relative to the working directory
std::string place_of(uintptr_t pc);       // of the instruction: "file:line (function)", innermost kernel code first
std::string hex(uint64_t bits);
std::string name_of(const Thread& thread);
std::string name_of_function(const void* function);
// Of each, as "file:line (function)"; addr2line is asked once, which takes a while.
std::vector<std::string> names_of_functions(const std::vector<const void*>& functions);

}  // namespace emulator
