// Bounds, alignment and contents of memory.
#include "../../../../csrc/cuda/primitives/memory.cuh"
#include "../../../../csrc/cuda/primitives/shared.cuh"
#include "fault.h"

namespace {
using namespace emulator::faults;

template <bool sound>
__global__ void sum_to(const int* in, int* out, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (sound ? i < n : i <= n) atomicAdd(out, in[i]);
}
FAULT(tail_one_too_long, kAsan, "AddressSanitizer: heap-buffer-overflow") {
  Buffer<int> in(100, 2), out(1);
  launch(sum_to<sound>, 2, 64, in, out, 100);
  return expect(out[0] == 200);
}

template <bool sound>
__global__ void store_all(int* out, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (!sound || i < n) out[i] = 1;
}
FAULT(tail_not_guarded, kAsan, "AddressSanitizer: heap-buffer-overflow") {
  Buffer<int> out(100);
  launch(store_all<sound>, 2, 64, out, 100);
  return expect_all(out, 1);
}

template <bool sound>
__global__ void tail_too_short(const int* in, int* out, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < (sound ? n : n - 1)) atomicAdd(out, in[i]);
}
FAULT(tail_one_too_short, kPlain | kRaces | kAsan, "wrong result") {
  Buffer<int> in(100, 2), out(1);
  launch(tail_too_short<sound>, 2, 64, in, out, 100);
  return expect(out[0] == 200);
}

template <bool sound>
__global__ void static_array(int* out) {
  __shared__ int shared[sound ? 64 : 63];
  shared[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = shared[63 - threadIdx.x] + int(threadIdx.x);
}
FAULT(shared_array_one_too_short, kAsan, "out of bounds") {
  Buffer<int> out(64);
  launch(static_array<sound>, 1, 64, out);
  return expect_all(out, 63);
}

template <bool sound>
__global__ void dynamic_array(int* out) {
  int* const shared = reinterpret_cast<int*>(torch_reductions::cuda::memory);
  shared[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = shared[63 - threadIdx.x] + int(threadIdx.x);
}
FAULT(launch_with_too_little_shared_memory, kAsan | kRaces,
      "use-after-poison|out of bounds: byte 255 of 252 bytes of dynamic shared memory") {
  Buffer<int> out(64);
  launch_with_shared(dynamic_array<sound>, 1, 64, sound ? 256 : 252, out);
  return expect_all(out, 63);
}

template <bool sound>
__global__ void nothing() {}
FAULT(launch_with_more_shared_memory_than_allowed, kPlain | kRaces | kAsan,
      "asks for 232704 bytes of dynamic shared memory") {
  launch_with_shared(nothing<sound>, 1, 32, 227 * 1024 + (sound ? 0 : 256));
  return "";
}

template <bool sound>
__global__ void some_are_set(const int* in, int* out) {
  __shared__ int shared[64];
  if (sound || in[threadIdx.x] != 0) shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[63 - threadIdx.x];
}
FAULT(shared_memory_not_always_written, kRaces | kPlain, "shared memory that nobody has written|wrong result") {
  Buffer<int> in(64, 0), out(64, 1);
  launch(some_are_set<sound>, 1, 64, in, out);
  return expect_all(out, 0);
}

template <bool sound>
__global__ void vectors(const float* in, float* out) {
  const float4 v = *reinterpret_cast<const float4*>(in + 4 * threadIdx.x + (sound ? 0 : 1));
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
FAULT(unaligned_vector_load, kAsan, "misaligned address") {
  Buffer<float> in(132, 1), out(32);
  launch(vectors<sound>, 1, 32, in, out);
  return expect_all(out, 4);
}

template <bool sound>
__global__ void loads_of_the_product(const float* in, float* out) {
  uint32_t words[4];
  torch_reductions::cuda::load16(words, in + 4 * threadIdx.x + (sound ? 0 : 2), 0, true);
  out[threadIdx.x] = __uint_as_float(words[0]) + __uint_as_float(words[3]);
}
FAULT(unaligned_load16, kAsan, "misaligned address") {
  Buffer<float> in(132, 1), out(32);
  launch(loads_of_the_product<sound>, 1, 32, in, out);
  return expect_all(out, 2);
}

template <bool sound>
__global__ void unaligned_atomic(char* data) {
  atomicAdd(reinterpret_cast<unsigned*>(data + (sound ? 4 : 2)), 1u);
}
FAULT(unaligned_atomic_access, kPlain | kRaces, "misaligned: an atomic access of 4 bytes") {
  Buffer<char> data(16);
  launch(unaligned_atomic<sound>, 1, 32, data);
  return expect(data[4] == 32);
}

template <bool sound>
__global__ void shifts(const int* by, int* out) {
  out[threadIdx.x] = sound ? int(uint64_t(1) << by[threadIdx.x]) : 1 << by[threadIdx.x];
}
FAULT(shift_by_the_width, kAsan, "shift exponent 32 is too large") {
  Buffer<int> by(32, 32), out(32, 1);
  launch(shifts<sound>, 1, 32, by, out);
  return expect_all(out, 0);
}

// Zero by chance on a fresh stack.
template <bool sound>
__global__ void sums_of_four(const int* in, int* out, int n) {
  int sums[4];
  if (sound)
    for (int& sum : sums) sum = 0;
  for (int i = 0; i < n; i++) sums[i & 3] += in[i];
  out[threadIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];
}
FAULT(variable_that_nobody_has_set, kPlain, "wrong result") {
  Buffer<int> in(8, 1), out(64);
  launch(sums_of_four<sound>, 1, 64, in, out, 8);
  return expect_all(out, 8);
}

// Of every word one half is written, and the other one read.
template <bool sound>
__global__ void half_of_a_word(int* out) {
  __shared__ uint16_t halves[64];
  halves[2 * threadIdx.x] = 7;
  if (sound) halves[2 * threadIdx.x + 1] = 7;
  __syncthreads();
  out[threadIdx.x] = halves[2 * threadIdx.x + 1];
}
FAULT(half_of_a_word_unwritten, kRaces, "shared memory that nobody has written") {
  Buffer<int> out(32);
  launch(half_of_a_word<sound>, 1, 32, out);
  return expect_all(out, 7);
}

}  // namespace
