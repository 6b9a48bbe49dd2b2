// The vector code of `ordered` for AVX2, FMA and F16C.
#include "ordered_kernels.h"

namespace torch_reductions::cpu::distance {
constexpr DistanceKernels distance_avx2 = make_distance_kernels();
}
