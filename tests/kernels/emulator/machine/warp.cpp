// The actions of warp.h, run once for all lanes that met.
#include "../device/warp.h"

#include "observer.h"

namespace emulator {
namespace {

Exchange& part(void* operand) { return *static_cast<Exchange*>(operand); }

template <class F>
void each(unsigned lanes, F body) {
  for (unsigned lane = 0; lane < kWarpSize; lane++)
    if (lanes >> lane & 1) body(lane);
}

const Thread& thread_at(unsigned lane) { return current->block->threads[current->warp->number * kWarpSize + lane]; }

}  // namespace

void shuffle(void* const (&operands)[kWarpSize], unsigned lanes) {
  each(lanes, [&](unsigned lane) {
    Exchange& own = part(operands[lane]);
    if (!(lanes >> own.source & 1))
      fault("lane " + std::to_string(lane) + " reads lane " + std::to_string(own.source) +
                ", which takes no part in the shuffle",
            thread_at(lane));
    own.result = part(operands[own.source]).value;
  });
}

void ballot(void* const (&operands)[kWarpSize], unsigned lanes) {
  unsigned votes = 0;
  each(lanes, [&](unsigned lane) { votes |= unsigned(part(operands[lane]).value) << lane; });
  each(lanes, [&](unsigned lane) { part(operands[lane]).result = votes; });
}

void match_any(void* const (&operands)[kWarpSize], unsigned lanes) {
  each(lanes, [&](unsigned lane) {
    Exchange& own = part(operands[lane]);
    each(lanes, [&](unsigned other) {
      if (part(operands[other]).value == own.value) own.result |= 1u << other;
    });
  });
}

void match_all(void* const (&operands)[kWarpSize], unsigned lanes) {
  match_any(operands, lanes);
  each(lanes, [&](unsigned lane) {
    Exchange& own = part(operands[lane]);
    if (own.result != lanes) own.result = 0;
  });
}

void sync_lanes(void* const (&)[kWarpSize], unsigned lanes) {
  observer->warp_barrier(*current->block, current->warp->number, lanes);
}

template <class T, Reduce kind>
void reduce_lanes(void* const (&operands)[kWarpSize], unsigned lanes) {
  const auto combine = [](T a, T b) -> T {
    switch (kind) {
      case Reduce::add: return T(unsigned(a) + unsigned(b));
      case Reduce::min: return b < a ? b : a;
      case Reduce::max: return a < b ? b : a;
      case Reduce::and_: return a & b;
      case Reduce::or_: return a | b;
      case Reduce::xor_: return a ^ b;
    }
    return a;
  };
  bool first = true;
  T total{};
  each(lanes, [&](unsigned lane) {
    const T value = from_bits<T>(part(operands[lane]).value);
    total = first ? value : combine(total, value);
    first = false;
  });
  each(lanes, [&](unsigned lane) { part(operands[lane]).result = to_bits(total); });
}
template void reduce_lanes<unsigned, Reduce::add>(void* const (&)[kWarpSize], unsigned);
template void reduce_lanes<int, Reduce::add>(void* const (&)[kWarpSize], unsigned);
template void reduce_lanes<unsigned, Reduce::min>(void* const (&)[kWarpSize], unsigned);
template void reduce_lanes<int, Reduce::min>(void* const (&)[kWarpSize], unsigned);
template void reduce_lanes<unsigned, Reduce::max>(void* const (&)[kWarpSize], unsigned);
template void reduce_lanes<int, Reduce::max>(void* const (&)[kWarpSize], unsigned);
template void reduce_lanes<unsigned, Reduce::and_>(void* const (&)[kWarpSize], unsigned);
template void reduce_lanes<unsigned, Reduce::or_>(void* const (&)[kWarpSize], unsigned);
template void reduce_lanes<unsigned, Reduce::xor_>(void* const (&)[kWarpSize], unsigned);

unsigned own_lane() { return current->lane; }
unsigned live_lanes() { return current->warp->live; }

}  // namespace emulator
