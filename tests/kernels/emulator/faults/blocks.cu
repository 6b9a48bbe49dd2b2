// Blocks that hand values to one another: counters, tickets, fences, look-back, barriers of the grid.
#include "../../../../csrc/cuda/primitives/memory.cuh"
#include "fault.h"

namespace {
using namespace emulator::faults;
using torch_reductions::cuda::load_relaxed;
using torch_reductions::cuda::store_relaxed;

template <bool sound>
__global__ void count(unsigned* counter) {
  if (sound) atomicAdd(counter, 1u);
  else ++*counter;
}
FAULT(counter_without_an_atomic, kRaces, "race in global memory") {
  Buffer<unsigned> counter(1);
  launch(count<sound>, 3, 64, counter);
  return expect(counter[0] == 192);
}

template <bool sound>
__global__ void histogram(const int* in, int* out) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  if (sound) atomicAdd(&bins[in[threadIdx.x]], 1);
  else bins[in[threadIdx.x]]++;
  __syncthreads();
  if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
}
FAULT(histogram_without_atomics, kRaces, "race in shared memory") {
  Buffer<int> in(128), out(8);
  for (int i = 0; i < 128; i++) in[i] = i % 8;
  launch(histogram<sound>, 1, 128, in, out);
  return expect_all(out, 16);
}

// The last block to draw a ticket folds the partials of all.
enum class Missing { none, release, acquire, reset };

template <Missing missing>
__global__ void last_block(const int* in, int* partials, unsigned* ticket, int* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = in[blockIdx.x];
    if (missing != Missing::release) __threadfence();
    const unsigned most = gridDim.x - 1;
    last = (missing == Missing::reset ? atomicAdd(ticket, 1u) : atomicInc(ticket, most)) == most;
    if (missing != Missing::acquire) __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 32) {
    int sum = 0;
    for (unsigned i = 0; i < gridDim.x; i++) sum += partials[i];
    *out = sum;
  }
}
template <Missing missing>
std::string run_last_block() {
  Buffer<int> in(6, 5), partials(6), out(1);
  Buffer<unsigned> ticket(1);
  for (int run = 0; run < 2; run++) {
    out[0] = 0;
    launch(last_block<missing>, 6, 64, in, partials, ticket, out);
    if (out[0] != 30) return "wrong result in run " + std::to_string(run);
  }
  return "";
}
FAULT(partial_without_a_fence, kRaces, "race in global memory: a read .* and a write") {
  return run_last_block<sound ? Missing::none : Missing::release>();
}
FAULT(ticket_without_a_fence_behind_it, kRaces, "race in global memory: a read .* and a write") {
  return run_last_block<sound ? Missing::none : Missing::acquire>();
}
FAULT(ticket_not_reset, kPlain | kRaces | kAsan, "wrong result in run 1") {
  return run_last_block<sound ? Missing::none : Missing::reset>();
}

// Look-back: a block waits for its predecessor's flag, then reads the value beside it.
template <bool sound>
__global__ void look_back(const int* in, int* values, uint64_t* flags, int* out) {
  if (threadIdx.x != 0) return;
  int before = 0;
  if (blockIdx.x > 0) {
    while (load_relaxed(&flags[blockIdx.x - 1]) == 0) {
    }
    __threadfence();
    before = values[blockIdx.x - 1];
  }
  values[blockIdx.x] = before + in[blockIdx.x];
  if (sound) __threadfence();
  store_relaxed(&flags[blockIdx.x], 1);
  out[blockIdx.x] = before + in[blockIdx.x];
}
FAULT(missing_fence_in_a_look_back, kRaces, "race in global memory: a read .* and a write") {
  Buffer<int> in(7, 1), values(7, -1), out(7);
  Buffer<uint64_t> flags(7);
  launch(look_back<sound>, 7, 32, in, values, flags, out);
  return expect(out[0] == 1 && out[6] == 7);
}

// A flag that is read and written like any other memory.
template <bool sound>
__global__ void plain_flag(uint64_t* flag, int* out) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    if (sound) store_relaxed(flag, 1);
    else *flag = 1;
  }
  if (blockIdx.x == 1 && threadIdx.x == 0) {
    while (load_relaxed(flag) == 0) {
    }
    *out = 1;
  }
}
FAULT(flag_stored_without_an_atomic, kRaces, "race in global memory: an? .*(read|write) .* and an? .*(read|write)") {
  Buffer<uint64_t> flag(1);
  Buffer<int> out(1);
  launch(plain_flag<sound>, 2, 32, flag, out);
  return expect(out[0] == 1);
}

// Nobody sets the flag of the block before the first.
template <bool sound>
__global__ void look_back_too_far(uint64_t* flags) {
  if (threadIdx.x == 0) {
    if (!sound || blockIdx.x > 0)
      while (load_relaxed(&flags[blockIdx.x]) == 0) {
      }
    store_relaxed(&flags[blockIdx.x + 1], 1);
  }
}
FAULT(wait_for_nobody, kPlain | kRaces | kAsan, "waits for ever") {
  Buffer<uint64_t> flags(6);
  launch(look_back_too_far<sound>, 5, 32, flags);
  return expect(flags[5] == 1);
}

// A barrier of the grid needs all blocks to be resident.
template <bool sound>
__global__ void grid_barrier(unsigned* arrived, int* out) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < gridDim.x) {
    }
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
FAULT(grid_barrier_in_an_ordinary_launch, kPlain | kRaces | kAsan, "waits for ever") {
  Buffer<unsigned> arrived(1);
  Buffer<int> out(9 * 32);
  emulator::Launch launch{dim3(9), dim3(32)};
  launch.cooperative = sound;
  emulator::launch(grid_barrier<sound>, launch, arrived, out);
  return expect_all(out, 1);
}

// Two blocks write the same place.
template <bool sound>
__global__ void overlapping(int* out) {
  out[blockIdx.x * (sound ? 32 : 31) + threadIdx.x] = 1;
}
FAULT(blocks_that_overlap, kRaces, "race in global memory: a write .* and a write") {
  Buffer<int> out(96);
  launch(overlapping<sound>, 3, 32, out);
  return expect(out[0] == 1 && out[sound ? 95 : 93] == 1);
}

}  // namespace
