#include "report.h"

#include <cxxabi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "fiber.h"
#include "machine.h"
#include "options.h"

namespace emulator {
namespace {

std::string relative(const std::string& file) {
  const std::filesystem::path path = std::filesystem::path(file).lexically_normal();
  const std::string text = path.lexically_proximate(std::filesystem::current_path()).string();
  return path.is_absolute() && text.rfind("../..", 0) != 0 ? text : path.string();
}

// The function's own name: without namespaces, template arguments and parameters.
std::string shorten(const std::string& function) {
  std::string name;
  int depth = 0;
  for (size_t i = 0; i < function.size(); i++) {
    const char c = function[i];
    if (function.compare(i, 21, "(anonymous namespace)") == 0) {
      i += 20;
      continue;
    }
    if (c == '(' && depth == 0 && !name.empty()) break;
    if (c == '<' || c == '(') depth++;
    if (depth == 0) name += c;
    if (c == '>' || c == ')') depth--;
  }
  const size_t begin = name.find_last_of(": ");
  return begin == std::string::npos ? name : name.substr(begin + 1);
}

// The machinery between a kernel and what it calls.
bool is_inside(const std::string& file) {
  for (const char* part : {"emulator/device/", "emulator/machine/", "emulator/cuda_on_cpu.h", "/include/c++/"})
    if (file.find(part) != std::string::npos) return true;
  return false;
}

// Of each of these instructions its lines, inlined calls from the inside out, as "file:line (function)".
std::vector<std::vector<std::string>> groups_of(const std::vector<uintptr_t>& pcs) {
  char executable[4096] = {};
  if (readlink("/proc/self/exe", executable, sizeof executable - 1) < 0) return {};
  std::string command = "addr2line -a -C -f -i -e '" + std::string(executable) + "'";
  for (const uintptr_t pc : pcs) command += ' ' + hex(pc);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::vector<std::vector<std::string>> groups;
  std::string function;
  for (char text[4096]; std::fgets(text, sizeof text, pipe) != nullptr;) {
    text[std::strcspn(text, "\n")] = 0;
    if (function.empty() && std::strncmp(text, "0x", 2) == 0) {
      groups.emplace_back();
      continue;
    }
    if (function.empty()) {
      function = text;
      continue;
    }
    std::string file = text;
    if (const size_t note = file.find(" (discriminator"); note != std::string::npos) file.resize(note);
    if (file[0] != '?' && !is_inside(file)) groups.back().push_back(relative(file) + " (" + shorten(function) + ")");
    function.clear();
  }
  pclose(pipe);
  return groups;
}

std::vector<std::string> lines_of(const std::vector<uintptr_t>& pcs) {
  std::vector<std::string> lines;
  for (const auto& group : groups_of(pcs)) lines.insert(lines.end(), group.begin(), group.end());
  return lines;
}

// From a function's frame on, through its callers.
std::vector<std::string> backtrace(void* const* base, std::vector<uintptr_t> pcs) {
  while (base != nullptr && on_a_stack(base) && pcs.size() < 16) {
    pcs.push_back(reinterpret_cast<uintptr_t>(base[1]) - 1);
    base = static_cast<void* const*>(base[0]);
  }
  return lines_of(pcs);
}

std::string text_of(const dim3& n) {
  std::string text = std::to_string(n.x);
  if (n.y * n.z > 1) text += " x " + std::to_string(n.y) + " x " + std::to_string(n.z);
  return text;
}

[[noreturn]] void tell(const std::string& what, const Thread* thread, const std::vector<std::string>& lines) {
  static bool telling = false;
  if (telling) _exit(kFaultExit);
  telling = true;
  std::string text = "fault: " + what + "\n";
  for (const std::string& line : lines) text += "  " + line + "\n";
  if (thread != nullptr) text += "  by " + name_of(*thread) + "\n";
  if (current_grid != nullptr) {
    const Launch& launch = current_grid->launch;
    text += "  kernel " + name_of_function(current_grid->kernel) + ", grid " + text_of(launch.grid) + ", block " +
            text_of(launch.block) + ", shared bytes " + std::to_string(launch.shared_bytes) + "\n";
  }
  text += "  schedule " + describe(options) + "\n";
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  _exit(kFaultExit);
}

}  // namespace

std::string text_of(const Place& place) { return relative(place.file_name()) + ":" + std::to_string(place.line()); }

std::string hex(uint64_t bits) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%08lx", static_cast<unsigned long>(bits));
  return text;
}

std::string place_of(uintptr_t pc) {
  std::string text;
  for (const std::string& line : lines_of({pc})) text += (text.empty() ? "" : ", in ") + line;
  return text.empty() ? "?" : text;
}

std::string name_of(const Thread& thread) {
  return "thread " + std::to_string(thread.rank) + " (warp " + std::to_string(thread.warp->number) + ", lane " +
         std::to_string(thread.lane) + ") of block " + std::to_string(thread.block->number);
}

std::vector<std::string> names_of_functions(const std::vector<const void*>& functions) {
  std::vector<uintptr_t> pcs;
  for (const void* function : functions) pcs.push_back(reinterpret_cast<uintptr_t>(function));
  std::vector<std::string> names;
  if (!pcs.empty())
    for (const auto& group : groups_of(pcs)) names.push_back(group.empty() ? "?" : group.back());
  return names;
}

std::string name_of_function(const void* function) {
  const auto names = names_of_functions({function});
  return names.empty() ? "?" : names[0];
}

void fault(const std::string& what) {
  if (current == nullptr) tell(what, nullptr, {});
  tell(what, current, backtrace(static_cast<void* const*>(__builtin_frame_address(0)), {}));
}

void fault(const std::string& what, const Thread& thread) {
  if (&thread == current) fault(what);
  const Frame frame = frame_of(thread.stack_pointer);
  tell(what, &thread, backtrace(frame.base, {reinterpret_cast<uintptr_t>(frame.return_address) - 1}));
}

void fault_with(const std::string& what, const std::vector<std::string>& lines) { tell(what, current, lines); }

}  // namespace emulator
