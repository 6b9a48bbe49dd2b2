// The vector code of `vectorized` for whatever the compiler's target has anyway: SSE2 on x86-64, NEON on aarch64.
#include "vectorized_kernels.h"

namespace torch_reductions::cpu::add {
constexpr AddKernels add_baseline = make_add_kernels();
}
