// The command line of the runners.
#pragma once
#include <set>
#include <string>

namespace emulator {

struct Command {
  std::string program, list;
  std::set<std::string> only;
  unsigned limit = 30;  // seconds
  int jobs = 1;
};

// Sets the machine's options on the way.
Command parse(int count, char** words);

}  // namespace emulator
