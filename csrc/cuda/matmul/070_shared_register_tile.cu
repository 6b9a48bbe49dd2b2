// shared_register_tile
// Changes: shared tiles and register tiles at once: a block stages panels of a and b for 128 x 128 elements of the result,
//          and each of its 256 threads computes 8 x 8 of them.
// Costs:   every access moves 4 bytes: 16 loads from shared memory for 64 multiply-adds. Where memory goes along k, the
//          staged elements of half a warp fall into one bank.
// Gains:   each element of a and b is loaded from global memory n / 128 or m / 128 times, and used 8 times from a register.
// Order:   one chain of fused multiply-adds over all of k, ascending, from +0.
// Needs:   7.5 and up; any layout.
// See:     Volkov and Demmel, Benchmarking GPUs to Tune Dense Linear Algebra, SC 2008.
#include "ladder.h"
#include "panels.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

// Every 16th row and column: neighbours read neighbours.
constexpr int kSide = 16;

// The part of a panel that this thread stages: eight elements, along whichever way memory goes.
template <class T>
struct Part {
  static constexpr int kCount = kTile * kDepth / kThreads;
  Factor<T> factor;
  T x[kCount];

  // body(e, o, k) for each of the elements.
  template <class Body>
  __device__ __forceinline__ void each_element(Body body) const {
    const int thread = thread_anew();
#pragma unroll
    for (int e = 0; e < kCount; e++) {
      if (factor.along_k) body(e, thread / kDepth + e * (kThreads / kDepth), thread % kDepth);
      else body(e, thread % kTile, thread / kTile + e * (kThreads / kTile));
    }
  }
  __device__ __forceinline__ void load() {
    each_element([&](int e, int o, int k) { x[e] = factor.element(o, k); });
    factor.advance();
  }
  __device__ __forceinline__ void store(T (&panel)[kDepth][kTile]) const {
    each_element([&](int e, int o, int k) { panel[k][o] = x[e]; });
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    multiply_scalar_panels(const __grid_constant__ MatmulArgs args, const __grid_constant__ Tiles tiles) {
  __shared__ T a_panel[kDepth][kTile], b_panel[kDepth][kTile];
  const Corner corner = corner_of_block<kTile, kTile>(tiles);
  const int row = threadIdx.x / kSide, column = threadIdx.x % kSide;
  Part<T> a{factor_a<T>(args, corner), {}}, b{factor_b<T>(args, corner), {}};

  T sums[kEach][kEach] = {};
  for (int64_t from_k = 0; from_k < args.k; from_k += kDepth) {
    a.load(), b.load();
    __syncthreads();  // all have read the panels before these
    a.store(a_panel), b.store(b_panel);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; k++) {
      T x[kEach], y[kEach];
#pragma unroll
      for (int e = 0; e < kEach; e++) x[e] = a_panel[k][row + e * kSide], y[e] = b_panel[k][column + e * kSide];
      add_outer_product(x, y, sums);
    }
  }

#pragma unroll
  for (int r = 0; r < kEach; r++) {
    const int64_t i = corner.i + row + r * kSide;
    if (i >= args.m) return;
#pragma unroll
    for (int c = 0; c < kEach; c++) {
      const int64_t j = corner.j + column + c * kSide;
      if (j < args.n) store_product<T>(args, corner.batch, i, j, sums[r][c]);
    }
  }
}

}  // namespace

void shared_register_tile(const MatmulArgs& args, Context& context) {
  with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
    launch_tiles<kTile, kTile>(multiply_scalar_panels<T>, args, context, kThreads);
  });
}

}  // namespace torch_reductions::cuda::matmul
