#include "shared.h"

#include <cuda_runtime.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "report.h"

// What `extern __shared__ uint4 memory[]` of the kernels refers to.
namespace torch_reductions::cuda {
alignas(1024) thread_local uint4 memory[emulator::kDynamicBytes / sizeof(uint4)];
}

// AddressSanitizer's, where it is linked.
extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const void* begin, size_t size);
__attribute__((weak)) void __asan_unpoison_memory_region(const void* begin, size_t size);
}

namespace emulator {
namespace {

// The executable is the first in the list of modules.
int find_segment(dl_phdr_info* info, size_t, void* result) {
  auto& shared = *static_cast<SharedMemory*>(result);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
    shared.begin = static_cast<char*>(info->dlpi_tls_data);
    shared.size = info->dlpi_phdr[i].p_memsz;
  }
  return 1;
}

// The segment is aligned to 1024 bytes, and `memory` in it.
void fill(char* begin, char* end) {
  const size_t bytes = size_t(end - begin);
  uint32_t* const words = reinterpret_cast<uint32_t*>(begin);
  std::fill(words, words + bytes / 4, kGarbage);
  std::memset(begin + bytes / 4 * 4, 0xff, bytes % 4);
}

// The segment holds the arrays of all kernels, a block touches those of one. So its whole pages are a private view of a file
// of garbage: what a block writes is a copy, and dropping the copies brings the garbage back.
constexpr uintptr_t kPage = 4096;
char* first_page(const SharedMemory& shared) {
  return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(shared.begin) + kPage - 1) / kPage * kPage);
}
char* last_page(const SharedMemory& shared) {  // where they end
  return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(shared.begin) + shared.size) / kPage * kPage);
}

int garbage_file(size_t bytes) {  // made once, of whole pages
  static const int file = [bytes = bytes / kPage * kPage + kPage] {
    const int made = memfd_create("garbage", MFD_CLOEXEC);
    if (made < 0 || ftruncate(made, off_t(bytes)) != 0) fault("no file for the garbage of shared memory");
    void* const all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
    if (all == MAP_FAILED) fault("no file for the garbage of shared memory");
    fill(static_cast<char*>(all), static_cast<char*>(all) + bytes);
    munmap(all, bytes);
    return made;
  }();
  return file;
}

}  // namespace

bool is_garbage(const char* byte) {
  return uint8_t(*byte) == uint8_t(kGarbage >> 8 * (reinterpret_cast<uintptr_t>(byte) % 4));
}

void prepare_shared_memory() {
  SharedMemory shared{};
  dl_iterate_phdr(find_segment, &shared);
  garbage_file(shared.size);
}

SharedMemory find_shared_memory() {
  SharedMemory shared{};
  dl_iterate_phdr(find_segment, &shared);
  shared.dynamic_begin = shared.offset(torch_reductions::cuda::memory);
  if (shared.begin == nullptr || shared.dynamic_begin + kDynamicBytes > shared.size)
    fault("the executable's thread-local segment does not hold the shared memory");
  char* const pages = first_page(shared);
  const size_t bytes = size_t(last_page(shared) - pages);
  if (mmap(pages, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, garbage_file(shared.size), 0) != pages)
    fault("no private view of the garbage of shared memory");
  return shared;
}

void fill_shared_memory(SharedMemory& shared, size_t dynamic_bytes) {
  shared.dynamic_end = shared.dynamic_begin + dynamic_bytes;
  const size_t behind = shared.dynamic_begin + kDynamicBytes;
  release_shared_memory(shared);
  fill(shared.begin, first_page(shared));
  madvise(first_page(shared), size_t(last_page(shared) - first_page(shared)), MADV_DONTNEED);
  fill(last_page(shared), shared.begin + shared.size);
  if (__asan_poison_memory_region != nullptr)
    __asan_poison_memory_region(shared.begin + shared.dynamic_end, behind - shared.dynamic_end);
}

void release_shared_memory(const SharedMemory& shared) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(shared.begin, shared.size);
}

}  // namespace emulator
