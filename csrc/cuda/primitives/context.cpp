#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "launch.h"

namespace torch_reductions::cuda {

void fail(const char* message) { throw std::runtime_error(std::string("torch_reductions: ") + message); }

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // a launch error is not sticky: the next call starts clean
  fail((std::string("CUDA error in ") + what + ": " + cudaGetErrorString(error)).c_str());
}

namespace {

template <cudaDeviceAttr Attribute>
int attribute(int device) {
  static std::mutex mutex;
  static std::map<int, int> known;
  std::lock_guard<std::mutex> lock(mutex);
  int& value = known[device];
  if (value == 0) check(cudaDeviceGetAttribute(&value, Attribute, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

int multiprocessors(int device) { return attribute<cudaDevAttrMultiProcessorCount>(device); }
int architecture(int device) {
  return attribute<cudaDevAttrComputeCapabilityMajor>(device) * 10 +
         attribute<cudaDevAttrComputeCapabilityMinor>(device);
}
int shared_memory(int device) { return attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>(device); }

void allow_shared_memory(const void* kernel, size_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, size_t> allowed;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  std::lock_guard<std::mutex> lock(mutex);
  size_t& most = allowed[{kernel, device}];
  if (bytes <= most) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
        "a kernel's shared memory");
  most = bytes;
}

namespace {

constexpr int64_t kCounters = 16384, kWords = 1 << 17, kManyWords = 1 << 20;

// What a stream's launches share: zeroed when it is made and never given back. Counters wrap around to 0 by themselves,
// and the words of a tile state carry the number of their launch. Streams that run at once have states of their own.
struct StreamState {
  uint64_t launch[2];
  uint64_t words[kWords];
  unsigned counters[kCounters];
};
// Made for the first launch that needs it, or each such launch would zero one of its own.
struct LargeTileState {
  uint64_t launch[2];
  uint64_t words[kManyWords];
};

// More than torch's own streams of two devices; a bound, because streams that come and go would take memory for ever.
constexpr size_t kStreams = 256;

// Null where the device has no memory left outside torch's allocator, and for streams beyond the first kStreams.
template <class State>
State* of_stream(int device, cudaStream_t stream) {
  static std::mutex mutex;
  static std::map<std::pair<int, unsigned long long>, State*> known;
  unsigned long long id = 0;  // not the handle: one handle stands for the default streams of all threads
  check(cudaStreamGetId(stream, &id), "cudaStreamGetId");
  std::lock_guard<std::mutex> lock(mutex);
  const std::pair key{device, id};
  if (known.size() >= kStreams && !known.contains(key)) return nullptr;
  State*& state = known[key];
  if (state == nullptr) {
    // cudaMalloc while another stream captures would break that capture unless this thread requests the relaxed mode.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
    void* memory = nullptr;
    cudaError_t error = cudaMalloc(&memory, sizeof(State));
    if (error == cudaSuccess) error = cudaMemsetAsync(memory, 0, sizeof(State), stream);
    const cudaError_t restored = cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess && memory != nullptr) cudaFree(memory);
    check(restored, "cudaThreadExchangeStreamCaptureMode");
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(error, "cudaMalloc of a stream's state");
    state = static_cast<State*>(memory);
  }
  return state;
}

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

// A graph may be replayed on any stream, beside the one that captured it: it carries memory of its own, which it zeroes
// each time. So does what is too large for the stream's state.
void* zeroed(Context& context, size_t bytes) {
  void* memory = context.workspace(bytes);
  check(cudaMemsetAsync(memory, 0, bytes, context.stream), "cudaMemsetAsync");
  return memory;
}

}  // namespace

unsigned* Context::counters(int64_t count) {
  if (count <= kCounters && !capturing(stream))
    if (StreamState* state = of_stream<StreamState>(device, stream)) return state->counters;
  return static_cast<unsigned*>(zeroed(*this, size_t(count) * sizeof(unsigned)));
}

TileState Context::tile_state(int64_t words) {
  if (words <= kManyWords && !capturing(stream)) {
    const auto of = [](auto* state) { return state != nullptr ? TileState{state->launch, state->words} : TileState{}; };
    const TileState tile_state =
        words <= kWords ? of(of_stream<StreamState>(device, stream)) : of(of_stream<LargeTileState>(device, stream));
    if (tile_state.words != nullptr) return tile_state;
  }
  auto* memory = static_cast<uint64_t*>(zeroed(*this, size_t(words + 2) * sizeof(uint64_t)));
  return {memory, memory + 2};
}

}  // namespace torch_reductions::cuda
