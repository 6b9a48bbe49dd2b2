#include "plan.cuh"

namespace torch_reductions::cuda::matmul {

bool tensor_core_compiled() {
#ifdef __CUDACC__
  static const bool found = [] {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, multiply_fragments<BFloat16, SquareTensorTile, true, true>),
          "cudaFuncGetAttributes");
    return attributes.ptxVersion >= 80;
  }();
  return found;
#else
  return true;
#endif
}

void tensor_core_bfloat16(const MatmulArgs& args, Context& context) { launch_product<BFloat16>(args, context); }

}  // namespace torch_reductions::cuda::matmul
