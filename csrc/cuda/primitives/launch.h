// The one place where a kernel is launched, and what a launch needs from PyTorch's side.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace torch_reductions::cuda {

// Throw std::runtime_error. Declared here, defined in context.cpp: <string> would cost each kernel file a second.
[[noreturn]] void fail(const char* message);
void check(cudaError_t error, const char* what);

// Where the blocks of one launch publish values for one another (grid.cuh).
struct TileState {
  uint64_t* launch;  // the number of the launch, and in the next word how many readers have released it
  uint64_t* words;   // whatever earlier launches left
};

// Stream, memory and device of one call. ops/ implements workspace() with torch's allocator.
class Context {
 public:
  Context(int device, cudaStream_t stream) : device(device), stream(stream) {}
  virtual ~Context() = default;

  // Garbage, 256-byte aligned, given back in stream order when the call returns.
  virtual void* workspace(size_t bytes) = 0;

  // `count` counters that are 0, and that every kernel leaves at 0. Valid under graph capture and with several streams.
  unsigned* counters(int64_t count);

  // A tile state of `words` words, valid in the same cases.
  TileState tile_state(int64_t words);

  const int device;
  const cudaStream_t stream;
};

// Cached.
int multiprocessors(int device);
int architecture(int device);   // the compute capability, 75 for 7.5
int shared_memory(int device);  // bytes that a block may have, about as many as a multiprocessor has

// Allows blocks of the kernel `bytes` of dynamic shared memory, never fewer than before: another thread may be about to
// launch it.
void allow_shared_memory(const void* kernel, size_t bytes);

#if defined(__CUDACC__) || defined(CUDA_ON_CPU)
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
#ifdef __CUDACC__
  if (shared_bytes > 16 * 1024)  // with its static ones, up to 32 KB, a block has 48 KB unless more is requested
    allow_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes);
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), "a kernel launch");
#else  // the emulator of tests/ runs the same kernels on the CPU
  emulator::launch(kernel, grid, block, shared_bytes, stream, static_cast<Parameters>(arguments)...);
#endif
}

// The same in one dimension.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int64_t blocks, unsigned threads, size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  if (blocks > INT32_MAX) fail("more than 2^31 - 1 blocks in one launch");
  launch(kernel, dim3{unsigned(blocks)}, dim3{threads}, shared_bytes, stream, arguments...);
}

// The same in clusters: `cluster` neighbouring blocks run at the same time (cluster.cuh), or 0: none. From 9.0 on.
// dependent: the kernel awaits the launch before (dependent.cuh), and its blocks are started meanwhile.
template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), int cluster, bool dependent, int64_t blocks, unsigned threads,
                     size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
  if (blocks > INT32_MAX) fail("more than 2^31 - 1 blocks in one launch");
#ifdef __CUDACC__
  if (shared_bytes > 16 * 1024) allow_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes);
  cudaLaunchAttribute attributes[2]{};
  int count = 0;
  if (dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 0) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {unsigned(cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes, config.stream = stream;
  config.attrs = attributes, config.numAttrs = unsigned(count);
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "a kernel launch");
#else
  const emulator::Launch launch{dim3(unsigned(blocks)), dim3(threads), shared_bytes, false, unsigned(cluster)};
  emulator::launch(kernel, launch, static_cast<Parameters>(arguments)...);
#endif
}

// A launch without clusters of a kernel that awaits the one before, where the device can.
template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), int64_t blocks, unsigned threads, size_t shared_bytes,
                      const Context& context, Arguments... arguments) {
#ifdef __CUDACC__
  if (architecture(context.device) >= 90)
    return launch_clusters(kernel, 0, true, blocks, threads, shared_bytes, context.stream, arguments...);
#endif
  launch(kernel, blocks, threads, shared_bytes, context.stream, arguments...);
}

// What the device's code of a kernel was compiled from, and what it holds: some kernels are empty for all but a few
// architectures. The emulator's is whole.
struct KernelCode {
  int ptx_version = 90;
  size_t static_shared = 1;  // bytes
};
template <class... Parameters>
constexpr KernelCode code_of([[maybe_unused]] void (*kernel)(Parameters...)) {
#ifdef __CUDACC__
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return {attributes.ptxVersion, attributes.sharedSizeBytes};
#else
  return {};
#endif
}
#endif

}  // namespace torch_reductions::cuda
