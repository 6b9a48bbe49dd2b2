// The interface between 170_ordered.cpp, which plans, and the vector code, which is compiled per processor.
#pragma once
#include "../../common/args.h"

namespace torch_reductions::cpu::reduce {

// Neighbouring outputs, and the same range of elements of each; strides in elements.
struct ReduceStrip {
  const void* input;        // the first element of the range, for the first output
  int64_t outputs, length;  // 1 to kStrip, at least 1
  int64_t output_stride, length_stride;
  int64_t index;  // of the range's first element
  bool columns;   // the lanes of a vector are neighbouring outputs, not elements of one output
};
inline constexpr int64_t kStrip = 512;

// folds[i] = the fold of output i's range: Op::Value of with_operator's Op (output.h).
using FoldStrip = void (*)(const ReduceStrip& strip, void* folds);

struct ReduceKernels {
  FoldStrip fold[kReduceFunctions][kDtypes];
};
extern const ReduceKernels reduce_baseline, reduce_avx2, reduce_avx512;
const ReduceKernels& reduce_kernels();  // of this processor

}  // namespace torch_reductions::cpu::reduce
