// An operand as the kernels on tensor cores read it.
#pragma once
#include <cstdint>

#include "../../../common/args.h"
#include "../hopper/pack.h"

namespace torch_reductions::cuda::matmul {

// An operand of every batch: m or n in one direction, k in the other, strides in elements.
struct TensorOperand {
  const void* data;
  int64_t batch_stride, width_stride, k_stride;
  bool vectors;  // does every piece of it that begins at a multiple of 16 bytes of a line lie at an aligned address?
};

// Do its elements lie side by side in lines, along k or, of two bytes each, along the other direction?
inline bool in_lines(int64_t width_stride, int64_t k_stride, int size) {
  return k_stride == 1 || (width_stride == 1 && size == 2);
}

inline TensorOperand operand_of(const MatmulArgs& args, const Matrix& matrix, int64_t width, int64_t width_stride,
                                int64_t k_stride, int size) {
  const auto aligned = [&](int64_t stride, int64_t count) { return count <= 1 || stride * size % 16 == 0; };
  const bool along_k = k_stride == 1;
  return {.data = matrix.data,
          .batch_stride = matrix.batch_stride,
          .width_stride = width_stride,
          .k_stride = k_stride,
          .vectors = in_lines(width_stride, k_stride, size) && reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 &&
                     aligned(matrix.batch_stride, args.batch) &&
                     aligned(along_k ? width_stride : k_stride, along_k ? width : args.k)};
}

inline TensorOperand operand_of(const OperandLayout& layout) {
  const MatrixBatch& rows = layout.rows;
  const bool along_k = layout.major == Major::k;
  return {.data = rows.data,
          .batch_stride = rows.outer > 1 ? rows.outer_stride : 0,
          .width_stride = along_k ? rows.row_stride : 1,
          .k_stride = along_k ? 1 : rows.row_stride,
          .vectors = true};
}

inline TensorOperand rows_of(const MatmulArgs& args) {
  return operand_of(args, args.a, args.m, args.a.row_stride, args.a.column_stride, int(size_of(args.dtype)));
}
inline TensorOperand columns_of(const MatmulArgs& args) {
  return operand_of(args, args.b, args.n, args.b.column_stride, args.b.row_stride, int(size_of(args.dtype)));
}

}  // namespace torch_reductions::cuda::matmul
