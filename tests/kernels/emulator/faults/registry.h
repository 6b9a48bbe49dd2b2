// The list of planted faults, which faults/main.cpp runs.
#pragma once
#include <string>
#include <vector>

namespace emulator::faults {

enum Where : unsigned {
  kPlain = 1,
  kRaces = 2,
  kAsan = 4,
  kGreedy = 8,   // plain, and by no other order than greedy
  kNowhere = 0,  // no fault: what the emulated instructions compute
};

struct Fault {
  const char* name;
  unsigned where;
  const char* message;
  std::string (*sound)();
  std::string (*faulty)();
};
std::vector<Fault>& all();

struct Register {
  explicit Register(const Fault& fault) { all().push_back(fault); }
};

}  // namespace emulator::faults
