#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

bool tensor_core_compiled() {
  static const bool found = code_of(multiply_fragments<BFloat16, SquareTensorTile, true, true>).ptx_version >= 80;
  return found;
}

template void launch_product<BFloat16>(const MatmulArgs&, Context&);

}  // namespace torch_reductions::cuda::matmul
