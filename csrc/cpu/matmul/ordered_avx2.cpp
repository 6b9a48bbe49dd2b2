// The vector code of `ordered` for AVX2, FMA and F16C.
#include "ordered_kernels.h"

namespace torch_reductions::cpu::matmul {
constexpr MatmulKernels matmul_avx2 = make_matmul_kernels();
}
