// The epilogue: alpha, the tensor that is added, and the one rounding to storage.
#pragma once
#include "../../common/args.h"
#include "../convert.h"

namespace torch_reductions::cpu::matmul {
namespace {

// The element at (batch, i, j) of a matrix of T.
template <class T>
inline const T* element_of(const Matrix& matrix, int64_t batch, int64_t i, int64_t j) {
  return static_cast<const T*>(matrix.data) + batch * matrix.batch_stride + i * matrix.row_stride +
         j * matrix.column_stride;
}

// Elements (i, j), (i, j + 1), ... of one batch, as many as there are sums.
template <class Out, class A>
inline void write_products(const MatmulArgs& args, int64_t batch, int64_t i, int64_t j, int64_t count, const A* sums) {
  Out* const output = static_cast<Out*>(args.output) + (batch * args.m + i) * args.n + j;
  for (int64_t c = 0; c < count; c++) {
    A value = sums[c];
    if constexpr (std::is_floating_point_v<A>) {
      if (args.alpha != 1) value = A(args.alpha) * value;
    }
    if (args.added.data) {
      A other = A(widen(*element_of<Out>(args.added, batch, i, j + c)));
      if constexpr (std::is_floating_point_v<A>) {
        if (args.beta != 1) other = A(args.beta) * other;
      }
      value += other;
    }
    output[c] = narrow<Out>(value);
  }
}

}  // namespace
}  // namespace torch_reductions::cpu::matmul
