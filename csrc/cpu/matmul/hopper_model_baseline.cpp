// The model for whatever the compiler's target has anyway: SSE2 on x86-64, NEON on aarch64.
#include "hopper_model_kernels.h"

namespace torch_reductions::cpu::matmul {
constexpr HopperModel hopper_model_baseline = make_model();
}
