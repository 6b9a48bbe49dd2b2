#include "command.h"

#include <iostream>
#include <stdexcept>

#include "../machine/options.h"

// The fibers have stacks of their own, and some memory is allocated for good.
extern "C" const char* __asan_default_options() { return "detect_stack_use_after_return=0:detect_leaks=0"; }
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }

namespace emulator {
namespace {

constexpr const char* kUsage = R"( [options] LIST     (the program `faults` takes no list)
  --order forward|reverse|random|greedy    the schedule (forward)
  --seed N        of everything that the order leaves open (1)
  --resident N    blocks that run at once (3)
  --only NAME     this case, or NAME/faulty and NAME/sound of a fault; more than once: these
  --digests       writes "digest NAME HEX" for each case: the bits of its results
  --counts        runs each case once and writes what its kernels ask of a GPU (counts.py)
  --limit N       seconds of processor time for a case (30);  --jobs N    cases at a time (1)
)";

struct Parser {
  int count;
  char** words;
  int at = 0;

  bool next() { return ++at < count; }
  std::string word() const { return words[at]; }
  std::string value() {
    const std::string option = word();
    if (!next()) throw std::runtime_error(option + " needs a value");
    return word();
  }
  uint64_t number(uint64_t least) {
    const std::string option = word(), text = value();
    const bool digits = text.find_first_not_of("0123456789") == text.npos && !text.empty() && text.size() < 19;
    if (!digits || std::stoull(text) < least)
      throw std::runtime_error(option + " is " + text + "; it must be a number from " + std::to_string(least) + " on");
    return std::stoull(text);
  }
};

Command parse(int count, char** words) {
  Command command;
  command.program = words[0];
  Parser parser{count, words};
  while (parser.next()) {
    const std::string word = parser.word();
    if (word == "--order") options.order = order_named(parser.value());
    else if (word == "--seed") options.seed = parser.number(0);
    else if (word == "--resident") options.resident = int(parser.number(1));
    else if (word == "--only") command.only.insert(parser.value());
    else if (word == "--limit") command.limit = unsigned(parser.number(1));
    else if (word == "--jobs") command.jobs = int(parser.number(1));
    else if (word == "--digests") command.digests = true;
    else if (word == "--counts") command.counts = true;
    else if (word == "--help") command.help = true;
    else if (word[0] == '-') throw std::runtime_error("no option is called " + word + "; --help lists them");
    else command.list = word;
  }
  return command;
}

}  // namespace

int main_of(int (*run)(const Command&), int count, char** words) {
  try {
    const Command command = parse(count, words);
    if (!command.help) return run(command);
    std::cout << words[0] << kUsage;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << words[0] << ": " << error.what() << "\n";
    return 2;
  }
}

void check_all_known(std::set<std::string> only, const std::vector<std::string>& names, const std::string& what) {
  for (const std::string& name : names) only.erase(name);
  if (!only.empty()) throw std::runtime_error("no " + what + " is called " + *only.begin());
}

}  // namespace emulator
