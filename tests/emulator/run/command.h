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

// What main() does: runs the command, having set the machine's options; the exit status, 2 where it cannot be run.
int main_of(int (*run)(const Command&), int count, char** words);

}  // namespace emulator
