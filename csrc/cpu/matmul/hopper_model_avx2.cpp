// The model for AVX2, whose shifts take a count a lane. AVX-512 was no faster.
#include "hopper_model_kernels.h"

namespace torch_reductions::cpu::matmul {
constexpr HopperModel hopper_model_avx2 = make_model();
}
