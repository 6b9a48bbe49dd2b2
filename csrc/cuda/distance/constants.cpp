#include "constants.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <utility>

#include "../../common/ceil_div.h"
#include "../../common/fold.h"

namespace torch_reductions::cuda::distance {
namespace {

struct Owner {
  unsigned long long stream = 0, capture = 0;  // ids, which are never used again; of a stream that captures the handle
  bool capturing = false;
  bool operator==(const Owner&) const = default;
};

// A destroyed graph gives its slot back by `taken` alone, in whatever thread CUDA chooses; the rest is under the lock.
struct Slot {
  std::atomic<bool> taken{false};
  Owner owner;
};

// Of one module on one device. Never destroyed: graphs may outlive static objects.
struct Bank {
  char* memory = nullptr;
  Slot slots[kSlots];
};

// Looking a symbol up may load its module, which would break a capture unless this thread requests the relaxed mode.
char* address_of(const void* symbol) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  void* memory = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&memory, symbol);
  check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  check(error, "cudaGetSymbolAddress");
  return static_cast<char*>(memory);
}

void give_back(void* slot) { static_cast<Slot*>(slot)->taken = false; }

// The owner's slot, a free one if it has none yet; negative where all are taken.
int slot_of(Bank& bank, cudaStream_t stream) {
  Owner owner;
  cudaGraph_t graph = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamGetCaptureInfo(stream, &status, &owner.capture, &graph), "cudaStreamGetCaptureInfo");
  owner.capturing = status == cudaStreamCaptureStatusActive;
  if (owner.capturing) {
    // A stream that captures does not tell its id. Its handle tells the capture's branches apart, which may run at
    // once.
    owner.stream = reinterpret_cast<uintptr_t>(stream);
  } else {
    owner.capture = 0;
    check(cudaStreamGetId(stream, &owner.stream), "cudaStreamGetId");
  }
  for (int i = 0; i < kSlots; i++)
    if (bank.slots[i].taken && bank.slots[i].owner == owner) return i;
  for (int i = 0; i < kSlots; i++) {
    Slot& slot = bank.slots[i];
    if (slot.taken) continue;
    slot.owner = owner, slot.taken = true;
    if (owner.capturing) {
      cudaUserObject_t keeper = nullptr;
      cudaError_t error = cudaUserObjectCreate(&keeper, &slot, give_back, 1, cudaUserObjectNoDestructorSync);
      if (error == cudaSuccess) error = cudaGraphRetainUserObject(graph, keeper, 1, cudaGraphUserObjectMove);
      if (error != cudaSuccess) slot.taken = false;
      check(error, "a graph's hold of its constant memory");
    }
    return i;
  }
  return -1;
}

}  // namespace

void each_constant_part(const void* symbol, const DistanceArgs& args, Context& context,
                        void (*launch_part)(const DistanceArgs&, Context&, const ConstantPart&), Waiting kept) {
  const int64_t center = args.dims * size_of(args.dtype), fit = center > 0 ? kSlotBytes / center : 1;
  const bool fits = fit > 0;
  const int64_t most = fits ? int64_t(std::bit_floor(uint64_t(fit))) : std::max(args.centers_count, int64_t(1));
  const int64_t parts = ceil_div(args.centers_count, most);
  const size_t accumulator = args.dtype == Dtype::float64 ? sizeof(double) : sizeof(float);
  const int64_t blocks = kept == Waiting::centers ? args.centers_count : parts > 1 ? parts : 0;
  void* waiting = nullptr;
  if (blocks > 0) waiting = context.workspace(size_t(places_of(blocks)) * size_t(args.count) * accumulator);

  // Held over each copy and its kernel: two threads may share a stream, and no other's copy may come between.
  static std::mutex mutex;
  static auto& banks = *new std::map<std::pair<const void*, int>, Bank>;
  std::lock_guard<std::mutex> lock(mutex);
  Bank& bank = banks[{symbol, context.device}];
  if (bank.memory == nullptr) bank.memory = address_of(symbol);
  const int slot = fits ? slot_of(bank, context.stream) : -1;
  for (int64_t begin = 0; begin == 0 || begin < args.centers_count; begin += most) {
    const int64_t length = std::min(most, args.centers_count - begin);
    if (slot >= 0 && length > 0) {
      const char* const part = static_cast<const char*>(args.centers) + begin * center;
      check(cudaMemcpyAsync(bank.memory + slot * kSlotBytes, part, size_t(length * center), cudaMemcpyDeviceToDevice,
                            context.stream),
            "a copy into constant memory");
    }
    launch_part(args, context, {slot, begin, length, most, waiting});
  }
}

}  // namespace torch_reductions::cuda::distance
