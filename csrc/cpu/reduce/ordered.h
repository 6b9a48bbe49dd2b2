// What 170_ordered.cpp, which plans, asks of the vector code, which is compiled once for each kind of processor.
#pragma once
#include "../../common/args.h"

namespace torch_reductions::cpu {

// Neighbouring outputs, and the same run of elements of each; strides in elements.
struct Strip {
  const void* input;        // the first element of the run, for the first output
  int64_t outputs, length;  // 1 to kStrip, at least 1
  int64_t output_stride, length_stride;
  int64_t index;  // of the run's first element
  bool columns;   // vectors hold neighbouring outputs, not the elements of one
  bool far;       // the input comes from memory: ask for it ahead
};
inline constexpr int64_t kStrip = 512;

// folds[i] = Fold of output i's run: Op::Value of with_operator's Op (output.h).
using FoldStrip = void (*)(const Strip& strip, void* folds);

struct OrderedKernels {
  FoldStrip fold[kReduceFunctions][kDtypes];
};
extern const OrderedKernels ordered_baseline, ordered_avx2, ordered_avx512;
const OrderedKernels& ordered_kernels();  // of this processor

}  // namespace torch_reductions::cpu
