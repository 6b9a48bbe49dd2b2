// What 050_vectorized.cpp, which cuts a call into runs, asks of the vector code, which is compiled for each processor.
#pragma once
#include "../../common/args.h"

namespace torch_reductions::cpu {

// Neighbouring elements of the output, and where those of the operands lie; strides in elements.
struct AddRun {
  const void *input, *other;
  int64_t input_stride, other_stride;
  void* output;
  int64_t count;
  bool past;  // the caches: the whole output is larger than they are
};

struct AddKernels {
  void (*add[kDtypes])(const AddRun& run, double alpha);
};
extern const AddKernels add_baseline, add_avx2, add_avx512;

}  // namespace torch_reductions::cpu
