// The vector code of `vectorized` for AVX2, FMA and F16C.
#include "vectorized_kernels.h"

namespace torch_reductions::cpu::add {
constexpr AddKernels add_avx2 = make_add_kernels();
}
