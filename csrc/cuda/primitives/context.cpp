#include <map>
#include <mutex>
#include <utility>

#include "launch.h"

namespace torch_reductions::cuda {

int multiprocessors(int device) {
  static std::mutex mutex;
  static std::map<int, int> known;
  std::lock_guard<std::mutex> lock(mutex);
  int& count = known[device];
  if (count == 0) check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return count;
}

namespace {

constexpr int64_t kTickets = 16384;

// One array for each (device, stream), zeroed when it is made and never given back: a counter that wraps around to 0 by
// itself needs nothing else. Streams that run at once have arrays of their own.
unsigned* stream_tickets(int device, cudaStream_t stream) {
  static std::mutex mutex;
  static std::map<std::pair<int, cudaStream_t>, unsigned*> known;
  std::lock_guard<std::mutex> lock(mutex);
  unsigned*& tickets = known[{device, stream}];
  if (tickets == nullptr) {
    // cudaMalloc while another stream captures would break that capture unless this thread asks for the relaxed mode.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
    void* memory = nullptr;
    cudaError_t error = cudaMalloc(&memory, kTickets * sizeof(unsigned));
    if (error == cudaSuccess) error = cudaMemsetAsync(memory, 0, kTickets * sizeof(unsigned), stream);
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess && memory != nullptr) cudaFree(memory);
    check(error, "cudaMalloc of the tickets");
    tickets = static_cast<unsigned*>(memory);
  }
  return tickets;
}

}  // namespace

unsigned* Context::tickets(int64_t count) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  // A graph may be replayed on any stream, beside this one: it carries counters of its own and zeroes them each time.
  if (status == cudaStreamCaptureStatusNone && count <= kTickets) return stream_tickets(device, stream);
  void* memory = workspace(size_t(count) * sizeof(unsigned));
  check(cudaMemsetAsync(memory, 0, size_t(count) * sizeof(unsigned), stream), "cudaMemsetAsync of the tickets");
  return static_cast<unsigned*>(memory);
}

}  // namespace torch_reductions::cuda
