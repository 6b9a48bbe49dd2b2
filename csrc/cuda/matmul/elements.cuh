// What every product of matrices does with single elements: where they lie, and the way out to storage.
#pragma once
#include "../../common/args.h"
#include "../primitives/arithmetic.cuh"
#include "../primitives/thread.cuh"

namespace torch_reductions::cuda::matmul {

template <class T>
__device__ __forceinline__ const T* element_of(const Matrix& matrix, int64_t batch, int64_t i, int64_t j) {
  return static_cast<const T*>(matrix.data) + batch * matrix.batch_stride + i * matrix.row_stride +
         j * matrix.column_stride;
}

// Compared as A: a comparison of doubles for each result takes long.
template <class A>
__device__ __forceinline__ A scaled(double by, A value) {
  if constexpr (std::is_floating_point_v<A>) {
    if (A(by) != 1) value = A(by) * value;
  }
  return value;
}

// beta added; where there is something to add.
template <class Out, class A>
__device__ __forceinline__ A added_of(const MatmulArgs& args, int64_t batch, int64_t i, int64_t j) {
  return scaled(args.beta, A(factor(*element_of<Out>(args.added, batch, i, j))));
}
// The same of a row's 16 bytes, where they are aligned, added to values in place.
template <class T, int V>
__device__ __forceinline__ void add_vector(const MatmulArgs& args, int64_t batch, int64_t i, int64_t j,
                                           T (&values)[V]) {
  const auto added = *reinterpret_cast<const AlignedVector<T, V>*>(element_of<T>(args.added, batch, i, j));
#pragma unroll
  for (int v = 0; v < V; v++) values[v] = values[v] + scaled(args.beta, added.element[v]);
}
// alpha value + added, rounded to storage.
template <class Out, class A>
__device__ __forceinline__ Out sum_of(const MatmulArgs& args, A value, A added) {
  return rounded<Out>(scaled(args.alpha, value) + added);
}

// alpha value + beta added, rounded to storage; at the place that MatmulArgs gives.
template <class Out, class A>
__device__ __forceinline__ Out product_of(const MatmulArgs& args, int64_t batch, int64_t i, int64_t j, A value) {
  if (args.added.data != nullptr) return sum_of<Out>(args, value, added_of<Out, A>(args, batch, i, j));
  return rounded<Out>(scaled(args.alpha, value));
}

template <class Out, class A>
__device__ __forceinline__ void store_product(const MatmulArgs& args, int64_t batch, int64_t i, int64_t j, A value) {
  static_cast<Out*>(args.output)[(batch * args.m + i) * args.n + j] = product_of<Out>(args, batch, i, j, value);
}

// Element `index` of the output.
template <class Out, class A>
__device__ __forceinline__ void store_at(const MatmulArgs& args, int64_t index, A value) {
  const bool adds = args.added.data != nullptr;  // only then the element's indices are needed
  const int64_t row = adds ? index / args.n : 0, j = adds ? index % args.n : 0;
  const int64_t batch = adds ? row / args.m : 0, i = adds ? row % args.m : 0;
  static_cast<Out*>(args.output)[index] = product_of<Out>(args, batch, i, j, value);
}

}  // namespace torch_reductions::cuda::matmul
