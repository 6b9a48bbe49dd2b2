// The vector code of `ordered` for AVX-512 (F, BW, DQ, VL).
#include "ordered_kernels.h"

namespace torch_reductions::cpu::matmul {
constexpr MatmulKernels matmul_avx512 = make_matmul_kernels();
}
