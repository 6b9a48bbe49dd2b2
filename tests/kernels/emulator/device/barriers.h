// __syncthreads and its kin.
#pragma once
#include "../machine/machine.h"
#include "emulated.h"

namespace emulator {
// bar.sync of `count` threads; the caller's own way to name a barrier in PTX.
EMULATED void sync_named(unsigned barrier, unsigned count, Place place = Place::current()) {
  if (count % 32 != 0) fault("bar.sync of " + std::to_string(count) + " threads, which are not whole warps");
  wait_at_barrier("bar.sync", barrier, count, true, place);
}
}  // namespace emulator

EMULATED void __syncthreads(emulator::Place place = emulator::Place::current()) {
  emulator::wait_at_barrier("__syncthreads", 0, 0, true, place);
}
EMULATED int __syncthreads_count(int predicate, emulator::Place place = emulator::Place::current()) {
  return emulator::wait_at_barrier("__syncthreads_count", 0, 0, predicate != 0, place).last_count;
}
EMULATED int __syncthreads_and(int predicate, emulator::Place place = emulator::Place::current()) {
  return emulator::wait_at_barrier("__syncthreads_and", 0, 0, predicate != 0, place).last_all;
}
EMULATED int __syncthreads_or(int predicate, emulator::Place place = emulator::Place::current()) {
  return emulator::wait_at_barrier("__syncthreads_or", 0, 0, predicate != 0, place).last_any;
}
