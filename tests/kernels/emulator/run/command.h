// The command line of the runners.
#pragma once
#include <set>
#include <string>
#include <vector>

namespace emulator {

struct Command {
  std::string program, list;
  std::set<std::string> only;
  unsigned limit = 30;  // seconds of processor time
  int jobs = 1;
  bool help = false, digests = false, counts = false;
};

// What main() does: runs the command, having set the machine's options; the exit status, 2 where it cannot be run.
int main_of(int (*run)(const Command&), int count, char** words);

// Throws unless each of `only` is among the names; `what` they are names of.
void check_all_known(std::set<std::string> only, const std::vector<std::string>& names, const std::string& what);

}  // namespace emulator
