// The life of a block: its threads' turns until all have returned.
#include <numeric>

#include "fiber.h"
#include "machine.h"
#include "observer.h"
#include "schedule.h"
#include "shared.h"

namespace emulator {

Thread* current = nullptr;
Grid* current_grid = nullptr;

namespace {

constexpr uint64_t kMostIdleRounds = 100'000;  // then nobody will ever change what all of them look at

// Where a thread begins. The kernel's own return ends it.
void run_thread() {
  (*current_grid->body)();
  Thread& thread = *current;
  Block& block = *thread.block;
  for (const Barrier& barrier : block.barriers) {
    if (barrier.arrived > 0 && barrier.expected == block.size)
      fault("returns while " + std::to_string(barrier.arrived) + " threads wait at the barrier at " +
            text_of(barrier.place));
  }
  thread.state = State::done;
  block.live--;
  lane_returns(thread);
  emulator_switch(&thread.stack_pointer, block.scheduler);
  __builtin_unreachable();
}

}  // namespace

void end_turn(bool idle) {
  Thread& thread = *current;
  thread.idle = idle;
  emulator_switch(&thread.stack_pointer, thread.block->scheduler);
}

void Block::start() {
  const dim3& shape = grid->launch.block;
  live = size;
  mbarriers.clear();
  for (Barrier& barrier : barriers) barrier = Barrier{};
  for (unsigned w = 0; w < warps.size(); w++) warps[w] = Warp{w, 0, 0, {}};
  for (unsigned i = 0; i < size; i++) {
    Thread& thread = threads[i];
    Warp& warp = warps[i / kWarpSize];
    char* const stack = thread.stack != nullptr ? thread.stack : take_stack();
    const uint3 index{i % shape.x, i / shape.x % shape.y, i / (shape.x * shape.y)};
    thread = Thread{this, &warp, index, i, i % kWarpSize, State::ready, false, "", {}, nullptr, stack, {}, {}, {}};
    thread.stack_pointer = prepare_stack(stack, run_thread);
    warp.live |= 1u << thread.lane;
  }
  order.resize(options.order == Order::greedy ? warps.size() : size);
  std::iota(order.begin(), order.end(), 0u);
  fill_shared_memory(shared, grid->launch.shared_bytes);
  observer->begin_block(*this);
}

bool Block::turn(Thread& thread) {
  if (thread.state != State::ready) return false;
  thread.idle = false;
  current = &thread;
  emulator_switch(&scheduler, thread.stack_pointer);
  current = nullptr;
  return !thread.idle;
}

// Every thread that can has a turn, or in the greedy order as many as it can use. Was anything done?
bool Block::round() {
  bool progress = false;
  switch (options.order) {
    case Order::forward:
      for (Thread& thread : threads) progress |= turn(thread);
      break;
    case Order::reverse:
      for (size_t i = threads.size(); i-- > 0;) progress |= turn(threads[i]);
      break;
    case Order::random:
      shuffle_order(order);
      for (unsigned i : order) progress |= turn(threads[i]);
      break;
    case Order::greedy:
      shuffle_order(order);
      for (unsigned w : order) {
        const unsigned begin = w * kWarpSize, lanes = std::min(kWarpSize, size - begin);
        for (bool more = true; more;) {
          more = false;
          const unsigned first = unsigned(random_below(lanes));
          for (unsigned i = 0; i < lanes; i++) more |= turn(threads[begin + (first + i) % lanes]);
          progress |= more;
        }
      }
      break;
  }
  return progress;
}

void Block::check_deadlock() const {
  const Thread* waiting = nullptr;
  for (const Thread& thread : threads) {
    if (thread.state == State::ready) return;  // it looks at memory that another block may change
    if (thread.state != State::done && waiting == nullptr) waiting = &thread;
  }
  std::string what = "deadlock:";
  int told = 0;
  for (const Thread& thread : threads) {
    if (thread.state == State::done || (told > 0 && thread.place.line() == waiting->place.line())) continue;
    what += (told == 0 ? " " : ", ") + std::string("thread ") + std::to_string(thread.rank) + " waits in " +
            thread.kind + " at " + text_of(thread.place);
    if (++told == 4) break;
  }
  fault(what + "; " + std::to_string(size - live) + " threads have returned", *waiting);
}

void Block::run() {
  start();
  while (live > 0) {
    if (round()) {
      grid->idle_rounds = 0;
      offer_baton(slot, false);
      continue;
    }
    check_deadlock();
    if (++grid->idle_rounds > kMostIdleRounds) {
      for (const Thread& thread : threads)
        if (thread.state == State::ready) fault("waits for ever for memory that nobody changes", thread);
    }
    offer_baton(slot, true);
  }
  observer->end_block(*this);
}

}  // namespace emulator
