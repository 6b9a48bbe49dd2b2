// The vector code of `ordered` for AVX-512 (F, BW, DQ, VL).
#include "ordered_kernels.h"

namespace torch_reductions::cpu::distance {
constexpr DistanceKernels distance_avx512 = make_distance_kernels();
}
