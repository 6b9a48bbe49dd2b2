// The vector code of `ordered` for whatever the compiler's target has anyway: SSE2 on x86-64, NEON on aarch64.
#include "ordered_kernels.h"

namespace torch_reductions::cpu::reduce {
constexpr ReduceKernels reduce_baseline = make_reduce_kernels();
}
