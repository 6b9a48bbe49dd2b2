#include "command.h"

#include <iostream>
#include <stdexcept>

#include "../machine/options.h"
#include "../machine/races.h"

namespace emulator {
namespace {

Command parse(int count, char** words) {
  Command command;
  command.program = words[0];
  for (int i = 1; i < count; i++) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (++i == count) throw std::runtime_error(word + " needs a value");
      return words[i];
    };
    if (word == "--order") options.order = order_named(value());
    else if (word == "--seed") options.seed = std::stoull(value());
    else if (word == "--resident") options.resident = std::stoi(value());
    else if (word == "--races") races::enabled = true;
    else if (word == "--only") command.only.insert(value());
    else if (word == "--limit") command.limit = unsigned(std::stoul(value()));
    else if (word == "--jobs") command.jobs = std::stoi(value());
    else if (word[0] == '-') throw std::runtime_error("no option is called " + word);
    else command.list = word;
  }
  return command;
}

}  // namespace

int main_of(int (*run)(const Command&), int count, char** words) {
  try {
    return run(parse(count, words));
  } catch (const std::exception& error) {
    std::cerr << words[0] << ": " << error.what() << "\n";
    return 2;
  }
}

}  // namespace emulator
