// The vector code of `ordered` for AVX-512 F, BW, DQ and VL.
#include "ordered_kernels.h"

namespace torch_reductions::cpu::reduce {
constexpr ReduceKernels reduce_avx512 = make_reduce_kernels();
}
