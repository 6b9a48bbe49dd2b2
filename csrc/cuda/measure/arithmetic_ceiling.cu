// The ceiling that every product of matrices is compared with: kernels that repeat one instruction on every
// multiprocessor, with all operands in registers or, where it reads them there alone, in shared memory.
//
// The operands are random, as those of the products: tensor cores draw power by the bits that change, and clocks fall
// with it. The harness (torch_reductions/_measure/timing.py) times these kernels in turns with the products.
#include <cstdint>
#include <exception>

#include "../primitives/arithmetic.cuh"
#include "../primitives/launch.h"
#include "../primitives/mma.cuh"
#include "../primitives/wgmma.cuh"

namespace torch_reductions::cuda::measure {
namespace {

// Bits that look random, of which bfloat16 are made in [0.5, 1) with either sign.
template <class T>
__device__ __forceinline__ uint32_t random_word(uint32_t i) {
  i = (i + 1) * 0x9e3779b9u;
  i = (i ^ i >> 16) * 0x85ebca6bu;
  i = (i ^ i >> 13) * 0xc2b2ae35u;
  i ^= i >> 16;
  return sizeof(T) == 2 ? (i & 0x807f807fu) | 0x3f003f00u : i;
}

// Of all that an array holds, so that the compiler leaves nothing out.
template <class T>
__device__ __forceinline__ T sum_of(T x) {
  return x;
}
template <class T, int N>
__device__ __forceinline__ auto sum_of(const T (&x)[N]) {
  auto all = sum_of(x[0]);
#pragma unroll
  for (int i = 1; i < N; i++) all += sum_of(x[i]);
  return all;
}

// FFMA, IMAD, DFMA: each thread has independent chains; eight warps per scheduler.
template <class T>
struct Scalars {
  static constexpr int kThreads = 1024, kChains = 16;
  static constexpr int64_t kOperations = 2 * kChains * kThreads;  // of a block and a step

  T sums[kChains], a, c;

  __device__ __forceinline__ void begin(T a, T c) {
    this->a = a;
    this->c = c;
#pragma unroll
    for (int i = 0; i < kChains; i++) sums[i] = T(threadIdx.x * kChains + i);
  }
  __device__ __forceinline__ void step() {
#pragma unroll
    for (int i = 0; i < kChains; i++) sums[i] = multiply_add(sums[i], a, c);
  }
};

// mma.sync of bfloat16 or int8: a warp multiplies [64, k] by [k, 64], k being 32 bytes.
template <class T>
struct Tiles {
  static constexpr int kThreads = 256, kRows = 4, kColumns = 8;
  static constexpr int64_t kOperations = int64_t(2) * kRows * 16 * kColumns * 8 * (32 / sizeof(T)) * (kThreads / 32);

  ProductOf<T> sums[kRows][kColumns][4];
  uint32_t a[kRows][4], b[kColumns][2];

  __device__ __forceinline__ void begin(int, int) {
#pragma unroll
    for (int i = 0; i < kRows * 4; i++) a[i / 4][i % 4] = random_word<T>(threadIdx.x * 32 + i);
#pragma unroll
    for (int i = 0; i < kColumns * 2; i++) b[i / 2][i % 2] = random_word<T>(threadIdx.x * 32 + 16 + i);
#pragma unroll
    for (int i = 0; i < kRows * kColumns * 4; i++) sums[i / 4 / kColumns][i / 4 % kColumns][i % 4] = 0;
  }
  __device__ __forceinline__ void step() {
#pragma unroll
    for (int i = 0; i < kRows; i++) {
#pragma unroll
      for (int j = 0; j < kColumns; j++) mma_sync<T>(sums[i][j], a[i], b[j]);
    }
  }
};

// mma.sync of float64, 16 x 8 x 16.
template <>
struct Tiles<double> {
  static constexpr int kThreads = 512, kCount = 8;
  static constexpr int64_t kOperations = int64_t(2) * kCount * 16 * 8 * 16 * (kThreads / 32);

  double sums[kCount][4], a[8], b[4];

  __device__ __forceinline__ void begin(int, int) {
#pragma unroll
    for (int i = 0; i < 8; i++) a[i] = int(random_word<int>(threadIdx.x * 16 + i)) * 0x1p-31;
#pragma unroll
    for (int i = 0; i < 4; i++) b[i] = int(random_word<int>(threadIdx.x * 16 + 8 + i)) * 0x1p-31;
#pragma unroll
    for (int i = 0; i < kCount * 4; i++) sums[i / 4][i % 4] = i;
  }
  __device__ __forceinline__ void step() {
#pragma unroll
    for (int i = 0; i < kCount; i++) mma_sync(sums[i], a, b);
  }
};

// wgmma of bfloat16 or int8: four warps multiply [64, k] by [k, 256], k being 128 bytes, and four others do the same.
template <class T>
struct AsyncTiles {
  static constexpr int kThreads = 256, kRows = 64, kColumns = 256, kRowBytes = 128, kRepeats = 4;
  static constexpr int64_t kOperations =
      int64_t(2) * kRepeats * kRows * kColumns * (kRowBytes / sizeof(T)) * (kThreads / 128);
  static constexpr int kBytes = (kThreads / 128 * kRows + kColumns) * kRowBytes;  // of shared memory
  uint32_t sums[kColumns / 2];
  uint64_t a, b;

  __device__ __forceinline__ void begin(int, int) {
    extern __shared__ __align__(1024) uint4 memory[];
    for (int i = threadIdx.x; i < kBytes / 4; i += kThreads) reinterpret_cast<uint32_t*>(memory)[i] = random_word<T>(i);
    __syncthreads();
    char* const tiles = reinterpret_cast<char*>(memory);
    b = smem_descriptor(tiles, Major::k, 0);
    a = smem_descriptor(tiles + (kColumns + threadIdx.x / 128 * kRows) * kRowBytes, Major::k, 0);
#pragma unroll
    for (int i = 0; i < kColumns / 2; i++) sums[i] = 0;
  }
  __device__ __forceinline__ void step() {
    warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < kRepeats * 4; i++) {
      const uint64_t k = i % 4 * kNextStep<Major::k>;
      wgmma<T, Major::k, Major::k>(sums, a + k, b + k, true);
    }
    warpgroup_commit();
    warpgroup_wait<0>();
    fence_operand(sums);
  }
};

template <class Work, class T, int kUnroll>
__global__ void __launch_bounds__(Work::kThreads, 1) repeat(int64_t steps, T a, T c, void* sink) {
  Work work;
  work.begin(a, c);
#pragma unroll kUnroll
  for (int64_t step = 0; step < steps; step++) work.step();
  auto sum = sum_of(work.sums);
  using Sum = decltype(sum);
  if (sum == Sum(-1)) *static_cast<Sum*>(sink) = sum;  // next to never, but the compiler cannot know
}

// One block a multiprocessor; how many operations it is in all, a multiplication and an addition being two.
template <class Work, class T = int, int kUnroll = 1>
int64_t run(int64_t steps, cudaStream_t stream, void* sink, T a = 0, T c = 0, size_t shared_bytes = 0) {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the device");
  const int blocks = multiprocessors(device);
  launch(repeat<Work, T, kUnroll>, blocks, Work::kThreads, shared_bytes, stream, steps, a, c, sink);
  return Work::kOperations * steps * blocks;
}

template <class T>
int64_t run_async(int64_t steps, cudaStream_t stream, void* sink) {
  return run<AsyncTiles<T>>(steps, stream, sink, 0, 0, AsyncTiles<T>::kBytes);
}

int64_t run(int instruction, int64_t steps, void* sink, cudaStream_t stream) {
  switch (instruction) {
    case 0: return run<Scalars<float>, float, 4>(steps, stream, sink, 0.999f, 0.5f);
    case 1: return run<Scalars<uint32_t>, uint32_t, 4>(steps, stream, sink, 12345, 678);
    case 2: return run<Scalars<double>, double, 4>(steps, stream, sink, 0.999, 0.5);
    case 3: return run<Tiles<BFloat16>>(steps, stream, sink);
    case 4: return run<Tiles<int8_t>>(steps, stream, sink);
    case 5: return run<Tiles<double>>(steps, stream, sink);
    case 6: return run_async<BFloat16>(steps, stream, sink);
    case 7: return run_async<int8_t>(steps, stream, sink);
  }
  return 0;
}

// By the least architecture that has the instruction; wgmma is that of 9.0 alone.
bool runs_here(int instruction) {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the device");
  const int arch = architecture(device);
  if (instruction >= 6) return arch == 90;
  return arch >= (instruction == 5 ? 90 : instruction >= 3 ? 80 : 75);
}

}  // namespace
}  // namespace torch_reductions::cuda::measure

// Runs `steps` steps of an instruction on the current device: 0 FFMA, 1 IMAD, 2 DFMA; mma.sync of 3 bfloat16, 4 int8, 5
// float64; wgmma of 6 bfloat16, 7 int8. sink: 16 bytes. How many operations these are in all, or 0 where that cannot be
// launched, or the device has no such instruction.
extern "C" __attribute__((visibility("default"))) long long torch_reductions_arithmetic(int instruction,
                                                                                        long long steps, void* sink,
                                                                                        void* stream) {
  using namespace torch_reductions::cuda::measure;
  try {
    if (steps <= 0 || !runs_here(instruction)) return 0;
    return run(instruction, steps, sink, static_cast<cudaStream_t>(stream));
  } catch (const std::exception&) {
    return 0;
  }
}
