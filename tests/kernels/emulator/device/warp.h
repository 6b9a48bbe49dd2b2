// What the lanes of a mask do together: shuffles, votes, matches, reductions, __syncwarp.
#pragma once
#include <type_traits>

#include "../machine/machine.h"
#include "bits.h"

namespace emulator {

// A lane's part in an exchange.
struct Exchange {
  uint64_t value;
  int source;  // the lane that it reads
  uint64_t result;
};
void shuffle(void* const (&operands)[kWarpSize], unsigned lanes);
void ballot(void* const (&operands)[kWarpSize], unsigned lanes);
void match_any(void* const (&operands)[kWarpSize], unsigned lanes);
void match_all(void* const (&operands)[kWarpSize], unsigned lanes);
void sync_lanes(void* const (&operands)[kWarpSize], unsigned lanes);

enum class Reduce { add, min, max, and_, or_, xor_ };
template <class T, Reduce kind>
void reduce_lanes(void* const (&operands)[kWarpSize], unsigned lanes);

unsigned own_lane();
unsigned live_lanes();

// What the hardware shuffles: words of 4 and 8 bytes, and the two-byte types by a conversion.
template <class T>
concept Shuffled = std::is_trivially_copyable_v<T> && (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8) &&
                   (std::is_arithmetic_v<T> || sizeof(T) <= 4);

template <Shuffled T>
EMULATED T shuffle(const char* kind, unsigned mask, T value, int source, const Place& place) {
  Exchange exchange{to_bits(value), source, 0};
  meet(kind, mask, place, &exchange, shuffle);
  return from_bits<T>(exchange.result);
}
EMULATED uint64_t exchange(const char* kind, unsigned mask, uint64_t value, WarpAction action, const Place& place) {
  Exchange exchange{value, 0, 0};
  meet(kind, mask, place, &exchange, action);
  return exchange.result;
}

// The lane at `target`, or the caller's own where that lies outside its segment of `width` lanes.
EMULATED int within(int target, int width) {
  const int own = int(own_lane()), begin = own & ~(width - 1);
  return target >= begin && target < begin + width ? target : own;
}

}  // namespace emulator

template <class T>
EMULATED T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
                       emulator::Place place = emulator::Place::current()) {
  const int begin = int(emulator::own_lane()) & ~(width - 1);
  return emulator::shuffle("__shfl_sync", mask, value, begin | (lane & (width - 1)), place);
}
template <class T>
EMULATED T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                          emulator::Place place = emulator::Place::current()) {
  const int source = emulator::within(int(emulator::own_lane()) - int(delta), width);
  return emulator::shuffle("__shfl_up_sync", mask, value, source, place);
}
template <class T>
EMULATED T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                            emulator::Place place = emulator::Place::current()) {
  const int source = emulator::within(int(emulator::own_lane()) + int(delta), width);
  return emulator::shuffle("__shfl_down_sync", mask, value, source, place);
}
template <class T>
EMULATED T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                           emulator::Place place = emulator::Place::current()) {
  const int own = int(emulator::own_lane()), target = own ^ lane_mask;
  const int end = (own & ~(width - 1)) + width;  // an earlier segment may be read, a later one may not
  return emulator::shuffle("__shfl_xor_sync", mask, value, target < end ? target : own, place);
}

EMULATED unsigned __ballot_sync(unsigned mask, int predicate, emulator::Place place = emulator::Place::current()) {
  return unsigned(emulator::exchange("__ballot_sync", mask, predicate != 0, emulator::ballot, place));
}
EMULATED int __any_sync(unsigned mask, int predicate, emulator::Place place = emulator::Place::current()) {
  return emulator::exchange("__any_sync", mask, predicate != 0, emulator::ballot, place) != 0;
}
EMULATED int __all_sync(unsigned mask, int predicate, emulator::Place place = emulator::Place::current()) {
  return emulator::exchange("__all_sync", mask, predicate == 0, emulator::ballot, place) == 0;
}
template <emulator::Shuffled T>
EMULATED unsigned __match_any_sync(unsigned mask, T value, emulator::Place place = emulator::Place::current()) {
  return unsigned(emulator::exchange("__match_any_sync", mask, emulator::to_bits(value), emulator::match_any, place));
}
template <emulator::Shuffled T>
EMULATED unsigned __match_all_sync(unsigned mask, T value, int* predicate,
                                   emulator::Place place = emulator::Place::current()) {
  const auto lanes =
      unsigned(emulator::exchange("__match_all_sync", mask, emulator::to_bits(value), emulator::match_all, place));
  *predicate = lanes != 0;
  return lanes;
}
EMULATED void __syncwarp(unsigned mask = ~0u, emulator::Place place = emulator::Place::current()) {
  emulator::meet("__syncwarp", mask, place, nullptr, emulator::sync_lanes);
}
EMULATED unsigned __activemask() { return emulator::live_lanes(); }

#define EMULATED_REDUCE(name, T, kind)                                                                \
  EMULATED T name(unsigned mask, T value, emulator::Place place = emulator::Place::current()) {       \
    using namespace emulator;                                                                         \
    return from_bits<T>(exchange(#name, mask, to_bits(value), reduce_lanes<T, Reduce::kind>, place)); \
  }
EMULATED_REDUCE(__reduce_add_sync, unsigned, add)
EMULATED_REDUCE(__reduce_add_sync, int, add)
EMULATED_REDUCE(__reduce_min_sync, unsigned, min)
EMULATED_REDUCE(__reduce_min_sync, int, min)
EMULATED_REDUCE(__reduce_max_sync, unsigned, max)
EMULATED_REDUCE(__reduce_max_sync, int, max)
EMULATED_REDUCE(__reduce_and_sync, unsigned, and_)
EMULATED_REDUCE(__reduce_or_sync, unsigned, or_)
EMULATED_REDUCE(__reduce_xor_sync, unsigned, xor_)
#undef EMULATED_REDUCE
