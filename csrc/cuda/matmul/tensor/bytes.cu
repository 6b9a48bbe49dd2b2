#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

template void launch_product<int8_t>(const MatmulArgs&, Context&);
template void launch_product<uint8_t>(const MatmulArgs&, Context&);

}  // namespace torch_reductions::cuda::matmul
