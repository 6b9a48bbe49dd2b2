// What threads do together: barriers of a block, operations of a warp.
#include <algorithm>
#include <cstring>

#include "machine.h"
#include "observer.h"

namespace emulator {
namespace {

bool same_line(const Place& a, const Place& b) {
  return a.line() == b.line() && (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

void wait_in(State state, const char* kind, const Place& place, bool idle) {
  current->state = state;
  current->kind = kind;
  current->place = place;
  end_turn(idle);
}

bool complete(const Warp& warp, const WarpOperation& operation) {
  return (operation.mask & warp.live & ~operation.arrived) == 0;
}

// Runs the action and lets the lanes go on.
void finish(Block& block, Warp& warp, WarpOperation& operation) {
  WarpOperation done = operation;
  operation.kind = nullptr;
  warp.pc = done.pc;
  observer->warp_operation(done.kind, warp, done.place);
  if (done.action != nullptr) done.action(done.operands, done.arrived);
  for (unsigned lane = 0; lane < kWarpSize; lane++) {
    if (!(done.arrived >> lane & 1)) continue;
    Thread& thread = block.threads[warp.number * kWarpSize + lane];
    if (thread.state == State::in_warp_operation) thread.state = State::ready;
  }
}

}  // namespace

void meet(const char* kind, unsigned mask, const Place& place, void* operand, WarpAction action) {
  const uintptr_t pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) - 1;
  Thread& thread = *current;
  Warp& warp = *thread.warp;
  const unsigned own = 1u << thread.lane;
  if (!(mask & own))
    fault(std::string(kind) + " by lane " + std::to_string(thread.lane) + ", which is not in its own mask " +
          hex(mask));
  WarpOperation* free = nullptr;
  WarpOperation* joined = nullptr;
  for (WarpOperation& operation : warp.operations) {
    if (operation.kind == nullptr) free = free == nullptr ? &operation : free;
    else if (operation.mask == mask) joined = &operation;
  }
  if (joined == nullptr) {
    joined = free;  // there are as many as lanes
    *joined = WarpOperation{kind, mask, 0, place, pc, action, {}};
  } else if (joined->kind != kind || !same_line(joined->place, place)) {
    fault(std::string("divergent warp: ") + kind + " at " + text_of(place) + " meets " + joined->kind + " at " +
          text_of(joined->place) + " under the same mask " + hex(mask));
  }
  joined->operands[thread.lane] = operand;
  joined->arrived |= own;
  if (complete(warp, *joined)) finish(*thread.block, warp, *joined);
  else wait_in(State::in_warp_operation, kind, place, thread.waits);  // lanes that wait together still wait
}

void lane_returns(Thread& thread) {
  Warp& warp = *thread.warp;
  warp.live &= ~(1u << thread.lane);
  for (WarpOperation& operation : warp.operations)
    if (operation.kind != nullptr && complete(warp, operation)) finish(*thread.block, warp, operation);
}

const Barrier& wait_at_barrier(const char* kind, unsigned number, unsigned expected, bool predicate,
                               const Place& place) {
  Thread& thread = *current;
  Block& block = *thread.block;
  Barrier& barrier = block.barriers[number];
  if (expected == 0) {
    expected = block.size;
    if (block.live != block.size)
      fault(std::string(kind) + " after " + std::to_string(block.size - block.live) + " threads have returned");
  }
  if (barrier.arrived == 0) {
    barrier.expected = expected, barrier.place = place;
    barrier.count = 0, barrier.all = 1, barrier.any = 0;
  } else if (barrier.expected != expected || (number == 0 && !same_line(barrier.place, place))) {
    fault(std::string("divergent barrier: ") + kind + " at " + text_of(place) + ", while others wait at " +
          text_of(barrier.place));
  }
  barrier.count += predicate, barrier.all &= predicate, barrier.any |= predicate;
  barrier.members.push_back(&thread);
  if (++barrier.arrived < expected) {
    wait_in(State::at_barrier, kind, place, false);
    return barrier;
  }
  barrier.arrived = 0;
  barrier.last_count = barrier.count, barrier.last_all = barrier.all, barrier.last_any = barrier.any;
  observer->barrier(barrier.members, barrier.place);
  for (Thread* member : barrier.members)
    if (member->state == State::at_barrier) member->state = State::ready;
  barrier.members.clear();
  return barrier;
}

}  // namespace emulator
