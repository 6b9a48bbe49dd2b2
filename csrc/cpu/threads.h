// torch's thread pool, as the CPU's kernels use it.
#pragma once
#include <cstdint>
#include <functional>

namespace torch_reductions::cpu {

// Passed in by ops/: a second pool would compete with libgomp's. body(begin, end) must not throw. With a count of 1
// nothing runs in parallel.
struct Threads {
  int count;
  void (*parallel_for)(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body);
};

inline constexpr int64_t kGrain = 32768;  // elements that are worth a thread; torch's value

}  // namespace torch_reductions::cpu
