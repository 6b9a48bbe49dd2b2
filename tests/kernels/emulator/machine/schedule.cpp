#include "schedule.h"

#include <semaphore.h>

#include <algorithm>
#include <deque>
#include <random>
#include <stdexcept>

namespace emulator {

Options options;

namespace {
constexpr const char* kNames[] = {"forward", "reverse", "random", "greedy"};
}

Order order_named(const std::string& name) {
  for (int i = 0; i < 4; i++)
    if (name == kNames[i]) return Order(i);
  throw std::runtime_error("no order is called " + name);
}

std::string describe(const Options& options) {
  return std::string("--order ") + kNames[int(options.order)] + " --seed " + std::to_string(options.seed) +
         " --resident " + std::to_string(options.resident);
}

namespace {

std::mt19937_64 generator;

struct Turns {
  std::deque<sem_t> batons;  // of each slot: 1 where it may act
  std::vector<int> waiting;  // slots that still have work, in order; the holder is one of them
  uint64_t passing = 0;      // one offer of so many is taken, where the order is by chance
} turns;

void pass_to(int slot) { sem_post(&turns.batons[slot]); }

int choose_next(int slot) {
  const auto& slots = turns.waiting;
  const size_t at = std::lower_bound(slots.begin(), slots.end(), slot) - slots.begin(), n = slots.size();
  const size_t after = at < n && slots[at] == slot ? at + 1 : at;
  switch (options.order) {
    case Order::forward: return slots[after % n];
    case Order::reverse: return slots[(at + n - 1) % n];
    default: return slots[random_below(n)];
  }
}

}  // namespace

void begin_schedule() { generator.seed(options.seed); }

uint64_t random_below(uint64_t n) { return generator() % n; }

void shuffle_order(std::vector<unsigned>& order) {
  for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[random_below(i)]);
}

void begin_turns(int slots) {
  turns.waiting.resize(slots);
  for (int i = 0; i < slots; i++) turns.waiting[i] = i;
  while (turns.batons.size() < size_t(slots)) sem_init(&turns.batons.emplace_back(), 0, 0);
  pass_to(options.order == Order::forward ? 0 : options.order == Order::reverse ? slots - 1 : int(random_below(slots)));
  // Blocks that change often, and blocks that run nearly alone, show different faults.
  constexpr uint64_t kPassing[] = {1, 4, 64, 1 << 20};
  turns.passing = kPassing[random_below(4)];
}

void wait_for_baton(int slot) { sem_wait(&turns.batons[slot]); }

void offer_baton(int slot, bool stuck) {
  const bool by_chance = options.order == Order::random || options.order == Order::greedy;
  if (turns.waiting.size() < 2 || !(stuck || (by_chance && random_below(turns.passing) == 0))) return;
  const int next = choose_next(slot);
  if (next == slot) return;
  pass_to(next);
  wait_for_baton(slot);
}

void leave_turns(int slot) {
  turns.waiting.erase(std::find(turns.waiting.begin(), turns.waiting.end(), slot));
  if (!turns.waiting.empty()) pass_to(choose_next(slot));
}

}  // namespace emulator
