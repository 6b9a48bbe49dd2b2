// A process for each piece of work, some at a time, each with a limit of processor time.
#pragma once
#include <functional>
#include <string>

namespace emulator {

struct Ended {
  std::string output;  // what it wrote to standard error
  std::string how;     // empty where it ended with status 0, else "exit status 3", "signal: Aborted", "no end ..."
  double seconds;      // of processor time
};

// body(i) runs in a child for each i < count, its return value is the exit status; done(i, ended) in the parent.
void run_in_processes(size_t count, int at_once, unsigned seconds, const std::function<int(size_t)>& body,
                      const std::function<void(size_t, const Ended&)>& done);

}  // namespace emulator
