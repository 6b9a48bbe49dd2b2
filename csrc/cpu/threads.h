// torch's own threads, as the kernels of the CPU see them.
#pragma once
#include <cstdint>
#include <functional>

namespace torch_reductions::cpu {

// Handed in by ops/: a pool of one's own would fight with libgomp's. body(begin, end) must not throw. Nothing runs in
// parallel where count is 1.
struct Threads {
  int count;
  void (*parallel_for)(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body);
};

inline constexpr int64_t kGrain = 32768;  // elements that are worth a thread, as in torch

}  // namespace torch_reductions::cpu
