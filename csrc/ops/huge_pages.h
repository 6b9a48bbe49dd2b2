// Huge pages for large new tensors on the CPU: a new tensor's memory has no pages yet, and the kernel makes each when it
// is first written to. For a scan of 64 MiB those 16,384 faults take several times as long as the scan; with pages of
// 2 MiB there are 32. The advice touches no memory: each page is still made for the thread that first writes to it.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace torch_reductions {

// Smaller blocks may come from glibc's heap (up to 32 MiB, M_MMAP_THRESHOLD_MAX), where freed memory keeps both its
// pages and the advice; larger ones are mappings of their own, which a free returns to the kernel.
inline constexpr size_t kHugePagesFrom = size_t(32) << 20;

inline bool wants_huge_pages() {
  static const bool wanted = [] {
    const char* const text = std::getenv("TORCH_REDUCTIONS_HUGE_PAGES");
    return text == nullptr || std::strcmp(text, "0") != 0;
  }();
  return wanted;
}

// Advises for the whole pages inside these bytes. Where the kernel refuses, nothing changes: it is advice only. 0, or
// the error's number.
inline int advise_huge_pages(void* data, size_t bytes) {
  if (bytes < kHugePagesFrom || !wants_huge_pages()) return 0;
#ifdef MADV_HUGEPAGE
  static const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) & ~(page - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~(page - 1);
  const int before = errno;
  const int failure = madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE) == 0 ? 0 : errno;
  errno = before;
  return failure;
#else
  return ENOSYS;
#endif
}

}  // namespace torch_reductions
