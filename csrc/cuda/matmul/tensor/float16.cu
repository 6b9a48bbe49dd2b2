#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

template void launch_product<Half>(const MatmulArgs&, Context&);

}  // namespace torch_reductions::cuda::matmul
