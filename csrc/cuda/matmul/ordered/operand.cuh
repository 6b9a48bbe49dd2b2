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
  int64_t batch_stride, line_stride, depth_stride, lines;

  __device__ __forceinline__ const T* at(int64_t batch, int64_t line, int64_t k) const {
    return data + batch * batch_stride + line * line_stride + k * depth_stride;
  }
};

// Which neighbours lie side by side in memory: lines or elements of a line; `whole` ones in aligned vectors of 16
// bytes. `any` takes every layout, and widens the elements.
enum class Layout { lines, whole_lines, depth, whole_depth, any };

HOST_DEVICE constexpr bool is_along_depth(Layout layout) {
  return layout != Layout::lines && layout != Layout::whole_lines;
}
template <class T>
HOST_DEVICE constexpr int vector_of(Layout layout) {
  return layout == Layout::whole_lines || layout == Layout::whole_depth ? 16 / int(sizeof(T)) : 1;
}

// How `Threads` threads share the copying of Lines x Depth elements: each has the same number of pieces, of one vector,
// at constant distances from its first. Along the depth `Deep` threads stand side by side.
template <int Lines, int Depth, int Threads, bool AlongDepth, int Vector, int Deep>
struct Pieces {
  static constexpr int kWide = AlongDepth ? 1 : Vector,
                       kLong = AlongDepth ? Vector : 1;  // a vector, in lines and depth
  static constexpr int kDeep = AlongDepth ? Deep : Threads / (Lines / kWide), kAcross = Threads / kDeep;
  static constexpr int kDepthSteps = Depth / (kDeep * kLong), kLineSteps = Lines / (kAcross * kWide);
  static constexpr int kCount = kDepthSteps * kLineSteps;
  static_assert(kAcross * kWide * kLineSteps == Lines && kDeep * kLong * kDepthSteps == Depth);

  static __device__ __forceinline__ int line_of(int thread) {
    return AlongDepth ? thread / kDeep : thread % kAcross * kWide;
  }
  static __device__ __forceinline__ int depth_of(int thread) {
    return AlongDepth ? thread % kDeep * kLong : thread / kAcross;
  }
  static HOST_DEVICE constexpr int line_step(int piece) { return piece / kDepthSteps * kAcross * kWide; }
  static HOST_DEVICE constexpr int depth_step(int piece) { return piece % kDepthSteps * kDeep * kLong; }
};

// One vector from memory to shared memory, where `wanted`.
template <int Vector, class P, class T>
__device__ __forceinline__ void copy_piece(bool wanted, P* to, const T* from) {
  if constexpr (std::is_same_v<P, T>) cp_async_if<Vector * sizeof(T)>(wanted, to, from);
  else if (wanted) *to = factor(*from);
}
template <int Vector, class P, class T>
__device__ __forceinline__ void copy_piece(P* to, const T* from) {
  if constexpr (std::is_same_v<P, T>) cp_async<Vector * sizeof(T)>(to, from);
  else *to = factor(*from);
}

}  // namespace torch_reductions::cuda::matmul
