// Barriers of a block: one taken out at each place where one matters, and barriers that not all threads reach.
#include "fault.h"

namespace {
using namespace emulator::faults;

// The usual tree in shared memory, with the barrier that Missing names taken out.
enum class Missing { none, after_load, in_loop, before_reuse };

template <Missing missing>
__device__ float tree(float value, float* shared) {
  const int tid = threadIdx.x;
  shared[tid] = value;
  if (missing != Missing::after_load) __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (tid < stride) shared[tid] += shared[tid + stride];
    if (missing != Missing::in_loop) __syncthreads();
  }
  const float total = shared[0];
  if (missing != Missing::before_reuse) __syncthreads();  // the next call overwrites shared[0]
  return total;
}

template <Missing missing>
__global__ void two_trees(const float* in, float* out) {
  __shared__ float shared[128];
  const float total = tree<missing>(in[threadIdx.x], shared);
  out[threadIdx.x] = tree<missing>(total, shared);
}

template <Missing missing>
std::string run_trees() {
  Buffer<float> in(128, 1), out(128);
  launch(two_trees<missing>, 1, 128, in, out);
  return expect_all(out, 128 * 128);
}

FAULT(missing_barrier_after_load, kRaces, "race in shared memory|shared memory that nobody has written") {
  return run_trees<sound ? Missing::none : Missing::after_load>();
}
FAULT(missing_barrier_in_loop, kRaces | kPlain, "race in shared memory|wrong result") {
  return run_trees<sound ? Missing::none : Missing::in_loop>();
}
FAULT(missing_barrier_before_reuse, kRaces, "race in shared memory: a write .* and a read") {
  return run_trees<sound ? Missing::none : Missing::before_reuse>();
}

// Tiles of a product: the tile may not be loaded again before all have read it.
template <bool sound>
__global__ void tiles(const float* in, float* out, int tiles) {
  __shared__ float tile[64];
  float sum = 0;
  for (int t = 0; t < tiles; t++) {
    tile[threadIdx.x] = in[t * 64 + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 64; i++) sum += tile[i];
    if (sound) __syncthreads();
  }
  out[threadIdx.x] = sum;
}
FAULT(missing_barrier_at_the_end_of_a_tile, kRaces | kPlain, "race in shared memory|wrong result") {
  Buffer<float> in(256), out(64);
  for (int i = 0; i < 256; i++) in[i] = float(i / 64 + 1);
  launch(tiles<sound>, 1, 64, in, out, 4);
  return expect_all(out, 64 * 10);
}

// Shared memory that one thread writes and all read.
template <bool sound>
__global__ void broadcast(const int* in, int* out) {
  __shared__ int value;
  if (threadIdx.x == 0) value = *in;
  if (sound) __syncthreads();
  out[threadIdx.x] = value;
}
FAULT(missing_barrier_before_a_broadcast, kRaces | kPlain,
      "race in shared memory|shared memory that nobody has written|wrong result") {
  Buffer<int> in(1, 7), out(96);
  launch(broadcast<sound>, 1, 96, in, out);
  return expect_all(out, 7);
}

// In place in global memory.
template <bool sound>
__global__ void shift_left(int* data) {
  const int next = data[threadIdx.x + 1];
  if (sound) __syncthreads();
  data[threadIdx.x] = next;
}
FAULT(missing_barrier_in_global_memory, kRaces | kPlain, "race in global memory|wrong result") {
  Buffer<int> data(129);
  for (int i = 0; i < 129; i++) data[i] = i;
  launch(shift_left<sound>, 1, 128, data);
  return expect(data[0] == 1 && data[31] == 32 && data[127] == 128);
}

template <bool sound>
__global__ void two_barriers(int* out) {
  if (sound) {
    __syncthreads();
  } else if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}
FAULT(divergent_barriers, kPlain | kRaces | kAsan, "divergent barrier") {
  Buffer<int> out(64);
  launch(two_barriers<sound>, 1, 64, out);
  return expect_all(out, 1);
}

template <bool sound>
__global__ void barrier_in_a_loop(int* out) {
  const int rounds = sound ? 2 : 1 + int(threadIdx.x) % 2;
  for (int i = 0; i < rounds; i++) __syncthreads();
  out[threadIdx.x] = 1;
}
FAULT(barrier_that_half_of_the_threads_reach, kPlain | kRaces | kAsan, "threads have returned|returns while") {
  Buffer<int> out(64);
  launch(barrier_in_a_loop<sound>, 1, 64, out);
  return expect_all(out, 1);
}

template <bool sound>
__global__ void two_kinds_of_waiting(int* out) {
  if (sound || threadIdx.x < 32) __syncthreads();
  __syncwarp();
  if (!sound && threadIdx.x >= 32) emulator::sync_named(1, 64);
  out[threadIdx.x] = 1;
}
FAULT(deadlock_of_two_barriers, kPlain | kRaces | kAsan, "deadlock: thread .* waits in .* at .*barriers.cu:") {
  Buffer<int> out(64);
  launch(two_kinds_of_waiting<sound>, 1, 64, out);
  return expect_all(out, 1);
}

template <bool sound>
__global__ void early_return(const int* in, int* out, int n) {
  __shared__ int shared[64];
  const int i = int(threadIdx.x);
  if (!sound && i >= n) return;
  shared[i] = i < n ? in[i] : 0;
  __syncthreads();
  if (i < n) out[i] = shared[n - 1 - i];
}
FAULT(early_return_before_a_barrier, kPlain | kRaces | kAsan, "threads have returned|returns while") {
  Buffer<int> in(50, 3), out(50);
  launch(early_return<sound>, 1, 64, in, out, 50);
  return expect_all(out, 3);
}

// A named barrier of two warps, while the others go on.
template <bool sound>
__global__ void named_barrier(int* out) {
  __shared__ int shared[64];
  if (threadIdx.x < 64) {
    shared[threadIdx.x] = int(threadIdx.x);
    if (sound) emulator::sync_named(1, 64);
    out[threadIdx.x] = shared[63 - threadIdx.x] + int(threadIdx.x);
  }
}
FAULT(missing_named_barrier, kRaces, "race in shared memory|shared memory that nobody has written") {
  Buffer<int> out(64);
  launch(named_barrier<sound>, 1, 128, out);
  return expect_all(out, 63);
}

template <bool sound>
__global__ void counts(const int* in, int* out) {
  const int positive = __syncthreads_count(in[threadIdx.x] > 0);
  const int any = __syncthreads_or(in[threadIdx.x] > 0), all = __syncthreads_and(in[threadIdx.x] > 0);
  out[threadIdx.x] = positive + 1000 * any + 10000 * all;
}
FAULT(barriers_with_predicates, kNowhere, "") {
  Buffer<int> in(96, -1), out(96);
  for (int i = 0; i < 40; i++) in[i * 2] = 1;
  launch(counts<sound>, 1, 96, in, out);
  return expect_all(out, 1040);
}

}  // namespace
