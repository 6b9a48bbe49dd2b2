// The kernel of vector_loads and of swizzled: they differ in where an element of a panel lies.
#pragma once
#include "panels.cuh"

namespace torch_reductions::cuda::matmul {

// The part of a panel that this thread stages: twice four neighbours.
template <class Swizzle, class T>
struct VectorPart {
  static constexpr int kAlong = kDepth / 4, kAcross = kTile / 4;  // groups of four in a panel, either way
  Factor<T> factor;
  T x[2][4];

  // body(e, o, k) with the first element of each group of four.
  template <class Body>
  __device__ __forceinline__ void for_each_vec4(Body body) const {
    const int thread = thread_anew();
#pragma unroll
    for (int e = 0; e < 2; e++) {
      if (factor.along_k) body(e, thread / kAlong + e * (kThreads / kAlong), thread % kAlong * 4);
      else body(e, thread % kAcross * 4, thread / kAcross + e * (kThreads / kAcross));
    }
  }
  __device__ __forceinline__ void load() {
    for_each_vec4([&](int e, int o, int k) {
      if (factor.vec4(o, k)) return read_vec4(factor.at(o, k), x[e]);
#pragma unroll
      for (int n = 0; n < 4; n++) x[e][n] = factor.along_k ? factor.element(o, k + n) : factor.element(o + n, k);
    });
    factor.advance();
  }
  // Four neighbours along k go to four steps of the panel: it is transposed here.
  __device__ __forceinline__ void store(T* panel) const {
    for_each_vec4([&](int e, int o, int k) {
      if (!factor.along_k) return write_vec4(&panel[slot<Swizzle>(o, k)], x[e]);
#pragma unroll
      for (int n = 0; n < 4; n++) panel[slot<Swizzle>(o, k + n)] = x[e][n];
    });
  }
};

template <class T, class Swizzle>
__global__ void __launch_bounds__(kThreads, 2)
    multiply_vector_panels(const __grid_constant__ MatmulArgs args, const __grid_constant__ Tiles tiles) {
  __shared__ __align__(16) T a_panel[kDepth * kTile], b_panel[kDepth * kTile];
  const Corner corner = corner_of_block<kTile, kTile>(tiles);
  VectorPart<Swizzle, T> a{factor_a<T>(args, corner), {}}, b{factor_b<T>(args, corner), {}};

  T sums[kEach][kEach] = {};
  for (int64_t from_k = 0; from_k < args.k; from_k += kDepth) {
    a.load(), b.load();
    __syncthreads();  // all have read the panels before these
    a.store(a_panel), b.store(b_panel);
    __syncthreads();
    multiply_panels<Swizzle>(a_panel, b_panel, sums);
  }
  store_tile(args, corner, sums);
}

template <class Swizzle>
void multiply_by_vectors(const MatmulArgs& args, Context& context) {
  with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
    launch_tiles<kTile, kTile>(multiply_vector_panels<T, Swizzle>, args, context, kThreads);
  });
}

}  // namespace torch_reductions::cuda::matmul
