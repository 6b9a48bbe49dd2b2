// Copies that take their time.
#include "fault.h"

namespace {
using namespace emulator::faults;

enum class Missing { none, wait, barrier, commit };

template <Missing missing>
__global__ void copy_then_reverse(const int* in, int* out) {
  __shared__ int shared[64];
  emulator::cp_async(&shared[threadIdx.x], &in[threadIdx.x], 4);
  if (missing != Missing::commit) emulator::cp_async_commit();
  if (missing != Missing::wait) emulator::cp_async_wait(0);
  if (missing != Missing::barrier) __syncthreads();
  out[threadIdx.x] = shared[63 - threadIdx.x];
}
template <Missing missing>
std::string run_copy() {
  Buffer<int> in(64, 9), out(64);
  launch(copy_then_reverse<missing>, 1, 64, in, out);
  return expect_all(out, 9);
}
FAULT(asynchronous_copy_without_a_wait, kPlain | kRaces | kAsan, "shared memory that nobody has written|wrong result") {
  return run_copy<sound ? Missing::none : Missing::wait>();
}
FAULT(asynchronous_copy_without_a_commit, kPlain | kRaces | kAsan,
      "shared memory that nobody has written|wrong result") {
  return run_copy<sound ? Missing::none : Missing::commit>();
}
FAULT(asynchronous_copy_without_a_barrier, kRaces, "race in shared memory|shared memory that nobody has written") {
  return run_copy<sound ? Missing::none : Missing::barrier>();
}

// A ring that is refilled before all lanes have read it: the copy may land at once.
template <bool sound>
__global__ void refilled(const int* in, int* out, int tiles) {
  __shared__ int stage[32];
  int sum = 0;
  for (int t = 0; t < tiles; t++) {
    if (sound) __syncwarp();
    emulator::cp_async(&stage[threadIdx.x], &in[t * 32 + threadIdx.x], 4);
    emulator::cp_async_commit();
    emulator::cp_async_wait(0);
    __syncwarp();
    sum += stage[31 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}
FAULT(asynchronous_copy_asked_for_too_early, kRaces, "race in shared memory") {
  Buffer<int> in(5 * 32, 3), out(32);
  launch(refilled<sound>, 1, 32, in, out, 5);
  return expect_all(out, 15);
}

// Two stages: while one is summed the other is loaded.
template <bool sound>
__global__ void two_stages(const int* in, int* out, int tiles) {
  __shared__ int stage[2][32];
  const auto load = [&](int t) {
    if (t < tiles) emulator::cp_async(&stage[t % 2][threadIdx.x], &in[t * 32 + threadIdx.x], 4);
    emulator::cp_async_commit();
  };
  int sum = 0;
  load(0);
  for (int t = 0; t < tiles; t++) {
    load(t + 1);
    emulator::cp_async_wait(sound ? 1 : 2);
    __syncthreads();
    sum += stage[t % 2][31 - threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
FAULT(wait_for_one_group_too_few, kPlain | kRaces, "shared memory that nobody has written|wrong result") {
  Buffer<int> in(5 * 32), out(32);
  for (int i = 0; i < 160; i++) in[i] = i / 32 + 1;
  launch(two_stages<sound>, 1, 32, in, out, 5);
  return expect_all(out, 15);
}

template <bool sound>
__global__ void bulk(const int* in, int* out) {
  __shared__ __align__(16) int shared[256];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) emulator::mbarrier_init(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    emulator::mbarrier_arrive(&barrier, sizeof shared);
    emulator::copy_bulk(shared, in, sizeof shared, &barrier);
  }
  if (sound || threadIdx.x == 0) emulator::mbarrier_wait(&barrier, false);
  out[threadIdx.x] = shared[255 - threadIdx.x];
}
FAULT(bulk_copy_that_nobody_waits_for, kRaces, "race in shared memory|shared memory that nobody has written") {
  Buffer<int> in(256, 4), out(256);
  launch(bulk<sound>, 1, 256, in, out);
  return expect_all(out, 4);
}

template <bool sound>
__global__ void too_few_bytes(const int* in, int* out) {
  __shared__ __align__(16) int shared[32];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    emulator::mbarrier_init(&barrier, 1);
    emulator::mbarrier_arrive(&barrier, sizeof shared + (sound ? 0 : 16));
    emulator::copy_bulk(shared, in, sizeof shared, &barrier);
  }
  __syncthreads();
  emulator::mbarrier_wait(&barrier, false);
  out[threadIdx.x] = shared[threadIdx.x];
}
FAULT(mbarrier_that_expects_too_many_bytes, kPlain | kRaces | kAsan, "waits for ever") {
  Buffer<int> in(32, 4), out(32);
  launch(too_few_bytes<sound>, 1, 32, in, out);
  return expect_all(out, 4);
}

// A ring of one stage: the producer may not refill it before the consumers have read it.
template <bool sound>
__global__ void ring(const int* in, int* out, int tiles) {
  __shared__ __align__(16) int stage[32];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    emulator::mbarrier_init(&full, 1);
    emulator::mbarrier_init(&empty, 32);
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    for (int t = 0; t < tiles; t++) {
      if (sound && t > 0) emulator::mbarrier_wait(&empty, (t - 1) % 2);
      emulator::mbarrier_arrive(&full, sizeof stage);
      emulator::copy_bulk(stage, in + t * 32, sizeof stage, &full);
      if (!sound) emulator::mbarrier_wait(&full, t % 2);
    }
  } else if (threadIdx.x < 32) {
    int sum = 0;
    for (int t = 0; t < tiles; t++) {
      emulator::mbarrier_wait(&full, t % 2);
      sum += stage[threadIdx.x];
      emulator::mbarrier_arrive(&empty, 0);
    }
    out[threadIdx.x] = sum;
  }
}
FAULT(stage_refilled_too_early, kRaces, "race in shared memory: a write .* and a read") {
  Buffer<int> in(4 * 32), out(32);
  for (int i = 0; i < 128; i++) in[i] = i / 32 + 1;
  launch(ring<sound>, 1, 64, in, out, 4);
  return expect_all(out, 10);
}

}  // namespace
