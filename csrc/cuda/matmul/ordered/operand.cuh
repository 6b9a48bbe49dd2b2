// An operand as lines of products: line i of a is row i, line j of b is column j; k is the depth of both. Then a
// product is symmetric in them, and the kernels need not know which of the two is which.
#pragma once
#include "../../primitives/async.cuh"
#include "../../primitives/shared.cuh"
#include "../elements.cuh"

namespace torch_reductions::cuda::matmul {

template <class T>
struct Operand {
  const T* data;
  int64_t batch_stride, mn_stride, k_stride, lines;

  __device__ __forceinline__ const T* at(int64_t batch, int64_t line, int64_t k) const {
    return data + batch * batch_stride + line * mn_stride + k * k_stride;
  }
};

// Which neighbours are contiguous in memory: lines (MN-major) or elements of a line (K-major); `vec`: in whole aligned
// vectors of 16 bytes. `any` takes every layout, and widens the elements.
enum class Layout { mn_major, mn_major_vec, k_major, k_major_vec, any };

HOST_DEVICE constexpr bool is_k_major(Layout layout) {
  return layout != Layout::mn_major && layout != Layout::mn_major_vec;
}
template <class T>
HOST_DEVICE constexpr int vector_of(Layout layout) {
  return layout == Layout::mn_major_vec || layout == Layout::k_major_vec ? 16 / int(sizeof(T)) : 1;
}

// How `Threads` threads share the copying of Lines x Depth elements: each has the same number of pieces, of one vector,
// at constant distances from its first. K-major: KThreads threads stand side by side along k.
template <int Lines, int Depth, int Threads, bool KMajor, int Vector, int KThreads>
struct Pieces {
  static constexpr int kVectorLines = KMajor ? 1 : Vector, kVectorDepth = KMajor ? Vector : 1;
  static constexpr int kThreadsOfK = KMajor ? KThreads : Threads / (Lines / kVectorLines),
                       kAcross = Threads / kThreadsOfK;
  static constexpr int kDepthSteps = Depth / (kThreadsOfK * kVectorDepth),
                       kLineSteps = Lines / (kAcross * kVectorLines);
  static constexpr int kCount = kDepthSteps * kLineSteps;
  static_assert(kAcross * kVectorLines * kLineSteps == Lines && kThreadsOfK * kVectorDepth * kDepthSteps == Depth);

  static __device__ __forceinline__ int line_of(int thread) {
    return KMajor ? thread / kThreadsOfK : thread % kAcross * kVectorLines;
  }
  static __device__ __forceinline__ int depth_of(int thread) {
    return KMajor ? thread % kThreadsOfK * kVectorDepth : thread / kAcross;
  }
  static HOST_DEVICE constexpr int line_step(int piece) { return piece / kDepthSteps * kAcross * kVectorLines; }
  static HOST_DEVICE constexpr int depth_step(int piece) { return piece % kDepthSteps * kThreadsOfK * kVectorDepth; }
};

// One vector from memory to shared memory, where `wanted`.
template <int Vector, class P, class T>
__device__ __forceinline__ void copy_piece(bool wanted, P* to, const T* from) {
  if constexpr (std::is_same_v<P, T>) cp_async_if<Vector * sizeof(T)>(wanted, to, from);
  else if (wanted) *to = factor(*from);
}

}  // namespace torch_reductions::cuda::matmul
