// The interface between 030_hopper_model.cpp, which unpacks, and the vector code, compiled for two kinds of processor.
#pragma once
#include "../../common/tensor_step.h"

namespace torch_reductions::cpu::matmul {

inline constexpr int kModelColumns = 32;  // of b at once

// A chain of steps from +0: one row of a with each of the columns, as float32.
using ModelChain = void (*)(const TensorFactor* a, const TensorFactors<kModelColumns>* b, int64_t steps, float* sums);

struct HopperModel {
  ModelChain float16, bfloat16;
};
extern const HopperModel hopper_model_baseline, hopper_model_avx2;

}  // namespace torch_reductions::cpu::matmul
