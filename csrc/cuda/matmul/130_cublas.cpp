// cublas
// Changes: nothing of ours: torch's own operators, which call cuBLAS: the ruler.
// Costs:   the bits depend on m, n, the version of cuBLAS and the device. addmm rounds after the product, after each factor
//          and after the sum.
// Gains:   years of tuning for each size and device.
// Order:   cuBLAS's own.
// Needs:   what torch needs; torch's flags hold, those of reduced precision among them.
// See:     NVIDIA, cuBLAS Library User Guide.
#include "ladder.h"

namespace torch_reductions::cuda::matmul {

void cublas(const MatmulArgs&, Context&) { fail("no kernel here is cuBLAS: csrc/ops/matmul.cpp calls torch instead"); }

}  // namespace torch_reductions::cuda::matmul
