// The arguments of one call to a kernel, after PyTorch's side is done: no torch types.
#pragma once
#include <cstdint>

#include "dtype.h"
#include "mask.h"
#include "segments.h"

namespace torch_reductions {

enum class Function : int { sum, prod, mean, amax, amin, argmax, argmin };
inline constexpr int kReduceFunctions = 7;

// The input seen as [outer, length, inner], strides in elements (0 where a dimension was expanded); the output is
// contiguous [outer, inner]. No size is 0.
//   sum, prod: output is input's own type, or float32 for float16 and bfloat16, or any integer type or bool for
//   integers
//   mean: output is input's own floating type, or float32;  amax, amin: input's own type;  argmax, argmin: int64
struct ReduceArgs {
  Function function;
  Dtype input_dtype, output_dtype;
  const void* input;
  void* output;
  int64_t outer, length, inner;
  int64_t outer_stride, length_stride, inner_stride;
};

enum class Scan : int { cumsum, cumprod, logcumsumexp, cummax, cummin };
inline constexpr int kScanFunctions = 5;

// The input seen as [outer, length, inner], strides in elements (0 where a dimension was expanded); the output is
// contiguous [outer, results, inner]. Element j of a line of results is Fold(j + 1), or Fold(j) where exclusive; of
// `length` elements there are `length` results, or length + 1 where exclusive and with the initial element. In a
// reverse scan elements and results are counted from the end. outer, results and inner are never 0; length may be, with
// one result.
//   input_dtype, dtype: of the input and of the output: the same, and not bool. On the CPU cumsum and cumprod of
//   integers and bool read any of these where int64 is written; `ordered` on CUDA int32, of whole lines where inner is 1
//   or at least 32, of segments in sums alone. logcumsumexp takes no integer. cumsum, cumprod and logcumsumexp
//   accumulate in Accumulator<T>
//   indices: of cummax and cummin, as large as the output: where in the line, from the front, the extreme stands; of
//   the last one on ties and among NaN; -1 for Fold(0)
//   segments: packed along the length, each scanned alone; without offsets there are none. Then results == length.
//   front: the position of the first element in its line, of which these may be a part: indices count from the line's
//   front
//   mask: what it hides counts as the identity, of cummax and cummin at index -1, so that Fold(0) goes on until the
//   first element that takes part
// A scan that goes on from another one, forward and without segments:
//   before: contiguous [outer, inner], the fold of what came before each line, with which every result begins, or null.
//   Of cummax and cummin in the input's type, with its index in before_indices, else in Accumulator<T>
//   totals: contiguous [outer, inner] in Accumulator<T>, receives the Fold(length) of each line's own elements, or null.
//   Then length is a power of two and results == length. Not of cummax and cummin
struct ScanArgs {
  Scan function;
  Dtype input_dtype, dtype;
  const void* input;
  void* output;
  int64_t* indices;
  int64_t outer, length, results, inner;
  int64_t outer_stride, length_stride, inner_stride;
  bool exclusive, reverse;
  Segments segments;
  int64_t front;
  Mask mask;
  const void* before;
  const int64_t* before_indices;
  void* totals;
};

enum class Segment : int { segment_sum, segment_prod, segment_mean, segment_amax, segment_amin };
inline constexpr int kSegmentFunctions = 5;

// The fold of each segment of a line; the reductions' own, under the same number.
constexpr Function fold_of(Segment function) { return Function(int(function)); }
static_assert(fold_of(Segment::segment_amin) == Function::amin);

// The input seen as [outer, length, inner], strides in elements (0 where a dimension was expanded); the output is
// contiguous [outer, segments.count, inner], which is never 0; length may be. The types are those of a ReduceArgs.
struct SegmentArgs {
  Segment function;
  Dtype input_dtype, output_dtype;
  const void* input;
  void* output;
  int64_t outer, length, inner;
  int64_t outer_stride, length_stride, inner_stride;
  Segments segments;
};

enum class Recurrence : int { linear_recurrence };
inline constexpr int kRecurrenceFunctions = 1;

// h[t] = gates[t] h[t - 1] + tokens[t] down each line of [outer, length, inner]; in a reverse recurrence t + 1 stands
// for t - 1. Gates and tokens have strides of their own; initial, h before the first element, is contiguous [outer,
// inner], or null: no element stands before the first one. The output is contiguous. Nothing is 0.
//   dtype: of all of them, a floating type
//   segments: packed along the length, each computed alone; none without offsets. Then initial, if there is one, is
//   [outer, segments, inner]
//   before, totals: as in ScanArgs, of steps: their gates and their tokens
struct RecurrenceArgs {
  Dtype dtype;
  const void *gates, *tokens, *initial;
  void* output;
  int64_t outer, length, inner;
  Strides gate_strides, token_strides;
  bool reverse;
  Segments segments;
  const void *before_gates, *before_tokens;
  void *total_gates, *total_tokens;
};

enum class Product : int { mm, bmm, addmm, baddbmm, matmul, linear };
inline constexpr int kProductFunctions = 6;

// One matrix per batch. One of the two strides of a factor is 1; strides of 0 and overlapping rows are possible.
struct Matrix {
  const void* data;
  int64_t batch_stride, row_stride, column_stride;
};

// output = alpha (a b) + beta added, of each batch: a is [m, k], b is [k, n], added and output are [m, n]. batch, m and
// n are never 0; k may be: then a b is +0.
//   function: what was called; no kernel reads it. It keeps the offsets of the other fields: without it ptxas gives
//   multiply_narrow of tensor/ 130 registers where its budget is 128 (tests/kernels/test_gates.py)
//   parts: of k, of ceil(k / parts) elements each, the last one shorter; 1 unless the type is floating and k is not 0.
//   Only `ordered` takes more
//   dtype: of a and b, anything but bool
//   output_dtype: dtype, or float32 of float16 and bfloat16, or int32 of int8, uint8 and int16. Rounded once, from
//   ProductOf<T>, in which the factors alpha and beta and the sum are rounded too; where they are 1, nothing is
//   multiplied. Of integers both are 1.
//   added: without data there is nothing to add. Any strides; its type is output_dtype
//   output: contiguous [batch, m, n]
struct MatmulArgs {
  Product function;
  Dtype dtype, output_dtype;
  int parts = 1;
  Matrix a, b, added;
  double alpha, beta;
  void* output;
  int64_t batch, m, n, k;
};

// Parts are joined as they come: a value joins the waiting ones of these levels, from the lowest on, each of which
// stands left of it. Level l has the total of 2^l parts. Then it waits at level_of(part) itself, or is the result. So
// n parts are the balanced tree of the largest power of two parts, and the same of the others (docs/order.md).
HOST_DEVICE constexpr unsigned joined_levels(unsigned part, unsigned parts) {
  return part + 1 == parts ? part : part & ~(part + 1);  // the last part joins all that wait
}
HOST_DEVICE constexpr int level_of(unsigned part) {
  int level = 0;
  while (part >> level & 1) level++;
  return level;
}

enum class Add : int { add };
inline constexpr int kAddFunctions = 1;
inline constexpr int kAddDims = 64;  // torch's own limit

// output = input + alpha other, elementwise, with one rounding; of integers it wraps, of bool it is an or. The dims are
// those of the output as it lies in memory, the innermost first, merged where both operands allow it: element i of the
// output is the i-th in memory, and strides say where the operands' are (0 where one was broadcast). No size is 0, and
// of at least one dim.
//   alpha: of integers a whole number, of bool 0 or 1
//   count: of elements;  columns: of the output's innermost dim before dims were merged, which divides count
struct AddArgs {
  Dtype dtype;
  const void *input, *other;
  void* output;
  double alpha;
  int64_t count, columns;
  int dims;
  int64_t sizes[kAddDims], input_strides[kAddDims], other_strides[kAddDims];
};

enum class Distance : int { sum_squared_distances, grid_squared_distances };
inline constexpr int kDistanceFunctions = 2;

// output[i]: the sum over the centers of their squared distances from point i. There is at least one point; there may
// be no centers, and there are none where points have no coordinates.
//   dtype: of all of them, a floating type; it accumulates in Accumulator<T>
//   points: [count, dims], strides in elements; without data they are the pixels of a grid, (i % width, i / width)
//   centers: contiguous [centers_count, dims];  output: contiguous
struct DistanceArgs {
  Dtype dtype;
  const void *points, *centers;
  void* output;
  int64_t count, centers_count, dims;
  int64_t point_stride, dim_stride;
  int64_t width;
};

}  // namespace torch_reductions
