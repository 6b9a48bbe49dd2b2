// The vector code of `ordered` for AVX2, FMA (never contracted to) and F16C.
#include "ordered_kernels.h"

namespace torch_reductions::cpu::reduce {
constexpr ReduceKernels reduce_avx2 = make_reduce_kernels();
}
