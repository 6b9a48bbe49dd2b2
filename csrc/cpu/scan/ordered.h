// What 090_ordered.cpp, which plans, asks of the vector code, which is compiled once for each kind of processor.
#pragma once
#include "../../common/args.h"

namespace torch_reductions::cpu {

// Neighbouring lines, and the same run of elements of each; strides in elements, negative in a reverse scan. The run
// begins at a multiple of a power of two that is not less than its length.
struct ScanStrip {
  const void* input;      // the first element of the run, in the first line
  void* output;           // where its result goes; the others follow in the elements' order
  int64_t* indices;       // the same of cummax and cummin
  int64_t lines, length;  // 1 to kStrip where `columns`, at least 1
  int64_t input_line, input_step, output_line, output_step;
  int64_t index, index_step;  // of the run's first element, from the front of the line; 1, or -1 in a reverse scan
  bool columns;               // vectors hold neighbouring lines, not the elements of one
  // Where the mask has the input's first element, and its steps; null where all take part.
  const uint8_t* mask;
  int64_t mask_line, mask_step;

  bool hides(int64_t line, int64_t k) const { return mask && mask[line * mask_line + k * mask_step] == 0; }
};

// Inclusive results. bases[i], if there are bases, is what stands before the run in line i: Op::Value of
// with_operator's Op (output.h), an extreme neither flipped nor counted from elsewhere than the front.
using ScanLines = void (*)(const ScanStrip& strip, const void* bases);

// The fold of each line, of 2^k >= 64 elements: of logcumsumexp, which is no reduction.
using FoldLines = void (*)(const ScanStrip& strip, void* folds);

// The strip's elements, and an element of the same type in the place of the hidden ones: as rows, or as columns.
using HideElements = void (*)(const ScanStrip& strip, const void* hidden, void* to);

struct ScanKernels {
  ScanLines scan[kScanFunctions][kDtypes];
  FoldLines log_sum[kDtypes];
  HideElements hide[kDtypes];
};
extern const ScanKernels scan_baseline, scan_avx2, scan_avx512;

}  // namespace torch_reductions::cpu
