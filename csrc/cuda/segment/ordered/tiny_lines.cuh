// Lines of fewer than 8 elements and any strides: a thread per segment of a line, or of a few lines whose elements are
// neighbours in memory. All its loads are in flight together, and no digit waits, so that threads take few registers.
#pragma once
#include "../../primitives/fast_div.cuh"
#include "lines.cuh"

namespace torch_reductions::cuda::segment {

inline constexpr int kTinyLength = 7;
// Blocks of a multiprocessor: V lines take registers, and 7.5 has room for 1024 threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr int kMostTinyBlocks = 4;
#else
inline constexpr int kMostTinyBlocks = 6;
#endif
template <int V>
inline constexpr int kTinyBlocks = V > 1 ? 4 : kMostTinyBlocks;

// `pieces`: the segments of the groups of V lines.
template <class S, int V>
__global__ void __launch_bounds__(kLineThreads, kTinyBlocks<V>)
    segment_tiny_lines(Job<S> job, FastDiv groups, int64_t pieces) {
  const int64_t i = int64_t(blockIdx.x) * kLineThreads + threadIdx.x;
  if (i >= pieces) return;
  const int64_t s = groups.quotient(i, job.lines / V), line = (i - s * (job.lines / V)) * V, outer = job.outer_of(line),
                begin = job.segments.begin(s), n = job.segments.end(s) - begin;
  typename S::Value v[V];
  const char* const p = job.data(outer, line) + begin * job.layout.length_bytes;
  fold_in_thread<typename S::Op, V, true>(v, int(n) & kTinyLength, ElementRows<S, V>{job, p},
                                          [](int, const typename S::Value(&)[V]) {});
  job.store(outer, line, s, n, v);
}

}  // namespace torch_reductions::cuda::segment
