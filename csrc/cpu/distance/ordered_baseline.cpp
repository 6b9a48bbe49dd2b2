// The vector code of `ordered` for whatever the compiler's target has anyway: SSE2 on x86-64, NEON on aarch64.
#include "ordered_kernels.h"

namespace torch_reductions::cpu::distance {
constexpr DistanceKernels distance_baseline = make_distance_kernels();
}
