// The chain of steps, for the processor that the including file is compiled for.
#pragma once
#include "hopper_model.h"

namespace torch_reductions::cpu::matmul {
namespace {

template <class T>
void model_chain(const TensorFactor* a, const TensorFactors<kModelColumns>* b, int64_t steps, float* sums) {
  uint32_t bits[kModelColumns] = {};
  for (; steps > 0; steps--, a += kTensorStep, b += kTensorStep) tensor_step<T>(a, b, bits);
  __builtin_memcpy(sums, bits, sizeof bits);
}

constexpr HopperModel make_model() { return {model_chain<Half>, model_chain<BFloat16>}; }

}  // namespace
}  // namespace torch_reductions::cpu::matmul
