// swizzled
// Changes: in shared memory element o of step k lies at o ^ 8 (k / 4 mod 4).
// Costs:   an exclusive or an address, of which the compiler makes constants wherever k is one.
// Gains:   no bank conflict is left. Transposing stores: a warp holds 8 rows by 4 groups of k, whose banks were the
//          rows' own, four lanes each; now each group has 8 banks to itself. Loads and straight stores are as before:
//          groups of four stay together, and only change places within a step. Padding the rows instead would take
//          memory.
// Order:   one chain of fused multiply-adds over all of k, ascending, from +0.
// Needs:   7.5 and up; any layout.
// See:     vector_panels.cuh, the kernel; NVIDIA, CUTLASS, Efficient GEMM in CUDA.
#include "ladder.h"
#include "vector_panels.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

struct Swizzled {
  __device__ static constexpr int of(int k) { return k / 4 % 4 * 8; }
};

}  // namespace

void swizzled(const MatmulArgs& args, Context& context) { multiply_by_vectors<Swizzled>(args, context); }

}  // namespace torch_reductions::cuda::matmul
