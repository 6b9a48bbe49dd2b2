// The interface between 050_vectorized.cpp, which splits a call into runs, and the vector code, compiled per processor.
#pragma once
#include "../../common/args.h"

namespace torch_reductions::cpu::add {

// Contiguous elements of the output, and the operands' elements for them; strides in elements.
struct AddRun {
  const void *input, *other;
  int64_t input_stride, other_stride;
  void* output;
  int64_t count;
  bool streaming;  // stores that bypass the caches, for an output that is larger than they are
};

struct AddKernels {
  void (*add[kDtypes])(const AddRun& run, double alpha);
};
extern const AddKernels add_baseline, add_avx2, add_avx512;

}  // namespace torch_reductions::cpu::add
