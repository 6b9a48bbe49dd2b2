// What a library can run: a function for each number of a rung, checked against the ladder where it is compiled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ladder.h"

namespace torch_reductions {

template <class Args, class Device>
struct Launcher {
  int number;
  void (*run)(const Args&, Device&);
};

// Runs a rung with the value of its parameter that the number stands for: one number after the arguments, or both.
template <auto rung, const auto& ladder, int number, class Args, class Device>
void run_with_value(const Args& args, Device& device) {
  constexpr ParameterValue value = value_of(ladder, number);
  if constexpr (std::is_invocable_v<decltype(rung), const Args&, Device&, int>) rung(args, device, value.x);
  else rung(args, device, value.x, value.y);
}

// Is there one launcher for each number of the device's rungs, in the ladder's order?
template <size_t R, size_t L, class Args, class Device>
constexpr bool match(const Rung (&ladder)[R], Devices device, const Launcher<Args, Device> (&launchers)[L]) {
  size_t i = 0;
  for (const Rung& rung : ladder) {
    if ((rung.devices & device) == 0 || rung.devices & kTorch) continue;
    for (int value = 0; value < rung.parameter.count; value++) {
      if (i == L || launchers[i++].number != rung.number + value) return false;
    }
  }
  return i == L;
}

// false: the library has no rung of that number.
template <size_t L, class Args, class Device>
bool run(const Launcher<Args, Device> (&launchers)[L], int64_t number, const Args& args, Device& device) {
  for (const Launcher<Args, Device>& launcher : launchers) {
    if (launcher.number == number) return launcher.run(args, device), true;
  }
  return false;
}

}  // namespace torch_reductions
