// Planted faults: each a kernel and its sound twin, told apart by the template argument `sound`.
//
//   FAULT(name, where, "message") { ... launch(kernel<sound>, ...); return expect(...); }
//
// The sound twin must pass everywhere. The faulty one must be found, with that message, in every build that `where`
// names: in `plain` under at least one of the schedules, in `races` and `asan` under the only one that runs there.
#pragma once
#include <cstdlib>
#include <string>

#include "../../../../csrc/cuda/primitives/launch.h"
#include "registry.h"

#define FAULT(name, where, message)                                                                   \
  template <bool sound>                                                                               \
  std::string name();                                                                                 \
  const emulator::faults::Register register_##name{{#name, where, message, name<true>, name<false>}}; \
  template <bool sound>                                                                               \
  std::string name()

namespace emulator::faults {

// What a planted fault may write behind a buffer without harm to the emulator itself, which has its semaphores on the heap.
#ifdef __SANITIZE_ADDRESS__
inline constexpr size_t kBehind = 0;
#else
inline constexpr size_t kBehind = 4096;
#endif

// Memory of exactly n values, as torch aligns it: AddressSanitizer sees one too many.
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t n, T value = T{}) : size_(n) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, n * sizeof(T) + kBehind) != 0) std::abort();
    data_ = static_cast<T*>(memory);
    for (size_t i = 0; i < n; i++) data_[i] = value;
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  operator T*() { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

 private:
  size_t size_;
  T* data_;
};

inline std::string expect(bool right) { return right ? "" : "wrong result"; }

template <class T, class U>
std::string expect_all(Buffer<T>& values, U value) {
  for (const T& x : values)
    if (x != T(value)) return "wrong result: " + std::to_string(x) + " for " + std::to_string(value);
  return "";
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int64_t blocks, unsigned threads, Arguments&&... arguments) {
  torch_reductions::cuda::launch(kernel, blocks, threads, 0, nullptr, static_cast<Parameters>(arguments)...);
}
template <class... Parameters, class... Arguments>
void launch_with_shared(void (*kernel)(Parameters...), int64_t blocks, unsigned threads, size_t shared_bytes,
                        Arguments&&... arguments) {
  torch_reductions::cuda::launch(kernel, blocks, threads, shared_bytes, nullptr, static_cast<Parameters>(arguments)...);
}

}  // namespace emulator::faults
