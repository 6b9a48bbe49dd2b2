// What the compile budgets are measured against (tests/tools/test_build.py): a piece of work for the compiler that never
// changes, so its CPU seconds tell how fast this machine is while the project compiles. Do not change it.
#include <map>
#include <regex>
#include <string>

std::map<std::string, int> count_words(const std::string& text) {
  static const std::regex word("[a-z]+(-[a-z]+)*");
  std::map<std::string, int> counts;
  for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at) counts[at->str()]++;
  return counts;
}
