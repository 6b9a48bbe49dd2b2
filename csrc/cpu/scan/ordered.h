// The interface between 090_ordered.cpp, which plans, and the vector code, which is compiled per processor.
#pragma once
#include "../../common/args.h"

namespace torch_reductions::cpu::scan {

// Neighbouring lines, and the same run of elements of each; strides in elements, negative in a reverse scan. The run
// begins at a multiple of a power of two that is not less than its length.
struct ScanStrip {
  const void* input;      // the first element of the run, in the first line
  void* output;           // of its result; the others follow in the elements' order
  int64_t* indices;       // the same for cummax and cummin
  int64_t lines, length;  // 1 to kStrip where `columns`, at least 1
  int64_t input_line, input_step, output_line, output_step;
  int64_t index, index_step;  // of the run's first element, from the front of the line; 1, or -1 in a reverse scan
  bool columns;               // vectors hold neighbouring lines, not the elements of one
  // Of the input's first element, with the mask's own strides; null where no element is masked.
  const uint8_t* mask;
  int64_t mask_line, mask_step;
  // Receives the fold of each line's run, without its base; null if nobody asks. Then the length is a power of two.
  void* totals;
  bool drops_last;  // the last element has no result

  // Of the results of elements [k, k + n), those that are stored.
  int64_t kept(int64_t k, int64_t n) const { return n - (drops_last && k + n == length); }
  bool hides(int64_t line, int64_t k) const { return mask && mask[line * mask_line + k * mask_step] == 0; }
};

// Writes inclusive results. bases[i], if there are bases, is the fold of what precedes the run in line i: Op::Value of
// with_operator's Op (output.h); an extreme is not flipped there, and its index counts from the front.
using ScanLines = void (*)(const ScanStrip& strip, const void* bases);

// The fold of each line of 2^k >= 64 elements, for logcumsumexp: the reductions have no such fold.
using FoldLines = void (*)(const ScanStrip& strip, void* folds);

// Copies the strip's elements, as contiguous rows or columns, with `hidden` in place of the masked ones.
using HideElements = void (*)(const ScanStrip& strip, const void* hidden, void* to);

struct ScanKernels {
  ScanLines scan[kScanFunctions][kDtypes];
  ScanLines into_int64[2][kDtypes];  // cumsum and cumprod of integers and bool
  FoldLines log_sum[kDtypes];
  HideElements hide[kDtypes];
};
extern const ScanKernels scan_baseline, scan_avx2, scan_avx512;

}  // namespace torch_reductions::cpu::scan
