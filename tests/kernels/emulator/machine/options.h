// What a run is asked to do. The same options and the same input give the same run, step by step.
#pragma once
#include <cstdint>
#include <string>

namespace emulator {

// In which order runnable threads get their turns.
//   forward, reverse: by number;  random: in a new order each round
//   greedy: a random warp runs until all its threads are stuck, then another one: the largest distance between warps
enum class Order { forward, reverse, random, greedy };

struct Options {
  Order order = Order::forward;
  uint64_t seed = 1;
  int resident = 3;         // blocks that run at once
  int multiprocessors = 2;  // that the emulated device has
  int capability = 90;      // its compute capability; whatever it is, its tensor cores are those of 9.0
};
extern Options options;

std::string describe(const Options& options);  // as the runner takes them
Order order_named(const std::string& name);

}  // namespace emulator
