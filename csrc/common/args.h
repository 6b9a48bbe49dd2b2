// What one call asks of a kernel, after PyTorch's side is done: no torch type in it.
#pragma once
#include <cstdint>

#include "dtype.h"

namespace torch_reductions {

enum class Function : int { sum, prod, mean, amax, amin, argmax, argmin };
inline constexpr int kReduceFunctions = 7;

// The input seen as [outer, length, inner], strides in elements (0 where a dimension was expanded); the output is
// contiguous [outer, inner]. length may be 0 for sum, prod and mean; outer * inner is never 0.
//   sum, prod: output is input's own type, or float32 for float16 and bfloat16, or any integer type or bool for integers
//   mean: output is input's own floating type, or float32;  amax, amin: input's own type;  argmax, argmin: int64
struct ReduceArgs {
  Function function;
  Dtype input_dtype, output_dtype;
  const void* input;
  void* output;
  int64_t outer, length, inner;
  int64_t outer_stride, length_stride, inner_stride;
};

}  // namespace torch_reductions
