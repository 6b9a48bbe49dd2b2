// runner [options] LIST: every case of the list (tests/kernels/emulator/cases.py), each in a process of its own; --help lists the
// options. Writes "FAIL name" and what is wrong for each case that fails, then the kernels that ran, the longest cases and the counts.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>

#include "../machine/counts.h"
#include "../machine/machine.h"
#include "../machine/options.h"
#include "../machine/report.h"
#include "../machine/schedule.h"
#include "check.h"
#include "command.h"
#include "workers.h"

namespace {

using namespace emulator;

constexpr size_t kLongest = 5;  // cases whose processor time is written

int run(const Command& command) {
  if (command.list.empty())
    throw std::runtime_error("no list of cases was given; tests/kernels/emulator/cases.py writes one");
  std::ifstream file(command.list);
  if (!file) throw std::runtime_error(command.list + " cannot be opened");
  std::vector<Case> cases = read_cases(file);
  std::vector<std::string> names;
  for (const Case& c : cases) names.push_back(c.name);
  check_all_known(command.only, names, "case of " + command.list);
  if (!command.only.empty()) std::erase_if(cases, [&](const Case& c) { return !command.only.contains(c.name); });
  size_t failed = 0, launches = 0;
  std::set<const void*> kernels;
  std::vector<std::pair<double, std::string>> times;
  const auto body = [&](size_t i) {
    begin_schedule();
    std::string wrong;
    uint64_t digest = 0;
    try {
      if (command.counts) start_counting();
      wrong = check(cases[i], digest, command.counts);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    if (!wrong.empty()) std::cerr << wrong << "\n  schedule " << describe(options) << "\n";
    else if (command.counts) {
      std::cerr << "case " << cases[i].name << std::endl;
      print_counts(stderr);
    } else if (command.digests) std::cerr << "digest " << cases[i].name << " " << std::hex << digest << "\n";
    else
      for (const void* kernel : launched_kernels()) std::cerr << kernel << "\n";
    return wrong.empty() ? 0 : 1;
  };
  const auto done = [&](size_t i, const Ended& ended) {
    times.emplace_back(ended.seconds, cases[i].name);
    if (ended.how.empty() && (command.digests || command.counts)) {
      std::cout << ended.output << std::flush;  // what is left in it, the next child would write, too
      return;
    }
    if (ended.how.empty()) {
      for (size_t begin = 0, end; (end = ended.output.find('\n', begin)) != std::string::npos; begin = end + 1) {
        kernels.insert(
            reinterpret_cast<const void*>(std::stoull(ended.output.substr(begin, end - begin), nullptr, 16)));
        launches++;
      }
      return;
    }
    failed++;
    std::cout << "FAIL " << cases[i].name << ": " << ended.how << "\n" << ended.output;
    std::cout << "  repeat: " << command.program << " " << describe(options) << " --limit " << command.limit
              << " --only " << cases[i].name << " " << command.list << std::endl;
  };
  run_in_processes(cases.size(), command.jobs, command.limit, body, done);
  std::map<std::string, int> instances;
  for (const std::string& name : names_of_functions({kernels.begin(), kernels.end()})) instances[name]++;
  for (const auto& [name, count] : instances)
    std::cout << "kernel " << name << (count > 1 ? " x " + std::to_string(count) : "") << "\n";
  std::sort(times.rbegin(), times.rend());
  for (size_t i = 0; i < std::min<size_t>(times.size(), kLongest); i++)
    std::cout << "longest " << std::fixed << std::setprecision(1) << times[i].first << " s " << times[i].second << "\n";
  std::cout << cases.size() << " cases, " << failed << " failed" << std::endl;
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) { return emulator::main_of(run, count, words); }
