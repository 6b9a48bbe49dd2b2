// The vector code of `ordered` for AVX-512 F, BW, DQ and VL.
#include "ordered_kernels.h"

namespace torch_reductions::cpu::scan {
constexpr ScanKernels scan_avx512 = make_scan_kernels();
}
