// Faults that only some schedules show.
#include "fault.h"

namespace {
using namespace emulator::faults;

// Warp 0 hands two values over through one place. Only where it runs twice before warp 1 runs once is one lost.
template <bool sound>
__global__ void hand_over(unsigned* out) {
  __shared__ unsigned value, taken;
  if (threadIdx.x == 0) value = 0, taken = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned i = 1; i <= 2; i++) {
      if (sound)
        while (atomicAdd(&taken, 0u) != i - 1) {
        }
      atomicExch(&value, i);
    }
  } else if (threadIdx.x == 32) {
    unsigned seen = 0, last = 0;
    while (last != 2) {
      const unsigned now = atomicAdd(&value, 0u);
      if (now != last) seen++, last = now, atomicExch(&taken, now);
    }
    *out = seen;
  }
}
FAULT(value_overwritten_before_it_is_read, kGreedy, "wrong result") {
  Buffer<unsigned> out(1);
  launch(hand_over<sound>, 1, 64, out);
  return expect(out[0] == 2);
}

// The first block to come is taken for block 0.
template <bool sound>
__global__ void first_come(unsigned* ticket, unsigned* out) {
  if (threadIdx.x != 0) return;
  __nanosleep(10);
  const unsigned place = atomicAdd(ticket, 1u);
  out[sound ? blockIdx.x : place] = blockIdx.x;
}
FAULT(blocks_taken_in_the_order_in_which_they_come, kPlain, "wrong result") {
  Buffer<unsigned> ticket(1), out(6);
  launch(first_come<sound>, 6, 32, ticket, out);
  for (unsigned i = 0; i < 6; i++)
    if (out[i] != i) return "wrong result: block " + std::to_string(out[i]) + " came as number " + std::to_string(i);
  return "";
}

}  // namespace
