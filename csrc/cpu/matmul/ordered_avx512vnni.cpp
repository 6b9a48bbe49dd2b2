// The vector code of `ordered` for AVX-512 with VNNI, which multiplies pairs and adds them to a sum in one instruction:
// integers of up to 16 bits.
#include "ordered_kernels.h"

namespace torch_reductions::cpu::matmul {
constexpr MatmulKernels matmul_avx512vnni = make_matmul_kernels<PairStep>();
}
