// The vector code of `vectorized` for AVX-512 F, BW, DQ and VL.
#include "vectorized_kernels.h"

namespace torch_reductions::cpu::add {
constexpr AddKernels add_avx512 = make_add_kernels();
}
