// vector_loads
// Changes: 16 bytes per access, from global and from shared memory (vector_panels.cuh); a thread's 8 rows and columns
//          are two groups of 4 neighbours. What lies along k in memory is transposed as it is stored to shared memory.
// Costs:   the transposing stores: the four lanes that hold one row write to the same bank, four accesses instead of
//          one. Where a matrix is misaligned, or a row's length no multiple of 4, it is loaded element by element.
// Gains:   4 loads from shared memory for 64 multiply-adds instead of 16, and a quarter of the loads from global
//          memory.
// Order:   one chain of fused multiply-adds over all of k, ascending, from +0.
// Needs:   7.5 and up; any layout.
// See:     NVIDIA, CUDA C++ Best Practices Guide, on coalesced access and on shared memory.
#include "ladder.h"
#include "vector_panels.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

// No swizzle: every element at its own index.
struct Straight {
  __device__ static constexpr int of(int) { return 0; }
};

}  // namespace

void vector_loads(const MatmulArgs& args, Context& context) { multiply_by_vectors<Straight>(args, context); }

}  // namespace torch_reductions::cuda::matmul
