// faults [options]: every planted fault and its sound twin, each in a process of its own. --help lists the options.
//
// Writes a line a twin: name, where it must be found, the message that it must be found with, and what was said.
#include <iostream>

#include "../machine/options.h"
#include "../machine/schedule.h"
#include "../run/command.h"
#include "../run/workers.h"
#include "registry.h"

namespace emulator::faults {

std::vector<Fault>& all() {
  static std::vector<Fault> faults;
  return faults;
}

}  // namespace emulator::faults

namespace {

using namespace emulator;
using faults::Fault;

struct Twin {
  Fault fault;
  bool sound;

  std::string name() const { return std::string(fault.name) + (sound ? "/sound" : "/faulty"); }
};

int run(const Command& command) {
  std::vector<Twin> twins;
  std::vector<std::string> names;
  for (const Fault& fault : faults::all()) {
    for (const bool sound : {true, false}) {
      const Twin twin{fault, sound};
      if (!sound && fault.where == 0) continue;
      names.push_back(twin.name());
      if (command.only.empty() || command.only.contains(twin.name())) twins.push_back(twin);
    }
  }
  check_all_known(command.only, names, "fault (NAME/faulty or NAME/sound)");
  const auto body = [&](size_t i) {
    begin_schedule();
    const std::string wrong = twins[i].sound ? twins[i].fault.sound() : twins[i].fault.faulty();
    std::cerr << wrong << (wrong.empty() ? "" : "\n");
    return wrong.empty() ? 0 : 1;
  };
  const auto done = [&](size_t i, const Ended& ended) {
    const Twin& twin = twins[i];
    std::cout << "TWIN " << twin.name() << "\t" << twin.fault.where << "\t" << twin.fault.message << "\t"
              << (ended.how.empty() ? "nothing was found" : ended.how) << "\n"
              << ended.output << std::flush;
  };
  run_in_processes(twins.size(), command.jobs, command.limit, body, done);
  return 0;
}

}  // namespace

int main(int count, char** words) { return emulator::main_of(run, count, words); }
