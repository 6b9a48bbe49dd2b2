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

// glibc's heap serves blocks of up to 32 MiB (M_MMAP_THRESHOLD_MAX); larger ones are mappings of their own, which a free
// returns to the kernel together with the advice. Where another setting or another malloc keeps large blocks, the advice
// stays with them, for whatever uses them next: TORCH_REDUCTIONS_HUGE_PAGES=0 is for those.
inline constexpr size_t kHugePagesFrom = size_t(32) << 20;

inline bool huge_pages_are_wanted() {
  const char* const text = std::getenv("TORCH_REDUCTIONS_HUGE_PAGES");
  for (const char* const off : {"0", "off", "false", "no"}) {
    if (text != nullptr && std::strcmp(text, off) == 0) return false;
  }
  return true;
}
inline const bool kWantsHugePages = huge_pages_are_wanted();  // when the library is loaded: no thread changes it then

// Advises for the whole pages inside these bytes of new memory. Where the kernel refuses, nothing changes: it is advice
// only. 0, or the error's number; ECANCELED where it is turned off.
inline int advise_huge_pages(void* data, size_t bytes) {
  if (bytes < kHugePagesFrom) return 0;
  if (!kWantsHugePages) return ECANCELED;
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
