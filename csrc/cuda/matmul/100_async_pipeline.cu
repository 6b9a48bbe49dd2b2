// async_pipeline
// Changes: panels are copied into shared memory by asynchronous copies, three stages deep, while older ones are
//          multiplied.
// Costs:   three times the shared memory. A copy cannot transpose four elements: what lies along k comes 4 bytes at a
//          time.
// Gains:   no thread waits for global memory, no panel passes through registers, and one barrier per panel is enough.
// Order:   one chain of fused multiply-adds over all of k, ascending, from +0.
// Needs:   7.5 and up (before 8.0 the copies are ordinary loads and stores); any layout.
// See:     NVIDIA, CUDA C++ Programming Guide, on asynchronous data copies.
#include "../primitives/async.cuh"
#include "../primitives/shared.cuh"
#include "ladder.h"
#include "panels.cuh"

namespace torch_reductions::cuda::matmul {

namespace {

constexpr int kStages = 3, kPanel = kTile * kDepth;

// Of single copies a warp makes 4 o by 8 k: each falls into a bank of its own.
struct ByEight {
  __device__ static constexpr int of(int k) { return k % 8 * 4; }
};

template <class T>
__device__ __forceinline__ void copy_element(T* to, const Factor<T>& factor, int o, int k) {
  if (k < factor.depth) cp_async<4>(to, factor.at(o, k));
  else *to = factor.padding;
}

// Issues the copies of this thread's part of the next panel.
template <class T>
__device__ __forceinline__ void copy_panel(T* panel, Factor<T>& factor) {
  const int thread = thread_anew();
  if (factor.along_k) {
#pragma unroll
    for (int e = 0; e < kPanel / kThreads; e++) {
      const int o = thread / 8 + e / 2 * (kThreads / 8), k = thread % 8 + e % 2 * 8;
      copy_element(&panel[slot<ByEight>(o, k)], factor, o, k);
    }
  } else {
#pragma unroll
    for (int e = 0; e < kPanel / kThreads / 4; e++) {
      const int o = thread % (kTile / 4) * 4, k = thread / (kTile / 4) + e * (kThreads * 4 / kTile);
      T* const to = &panel[slot<ByEight>(o, k)];
      if (factor.vec4(o, k)) cp_async<16>(to, factor.at(o, k));
      else
        for (int n = 0; n < 4; n++) copy_element(to + n, factor, o + n, k);
    }
  }
  factor.advance();
}

template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    multiply_copied_panels(const __grid_constant__ MatmulArgs args, const __grid_constant__ Tiles tiles) {
  const Corner corner = corner_of_block<kTile, kTile>(tiles);
  Factor<T> a = factor_a<T>(args, corner), b = factor_b<T>(args, corner);
  T* const panels = reinterpret_cast<T*>(memory);
  const auto stage = [&](int number) { return panels + number * 2 * kPanel; };
  // One group of copies per panel, even an empty one, so that the groups can be counted.
  const auto issue_load = [&](int number) {
    if (a.depth > 0) copy_panel(stage(number), a), copy_panel(stage(number) + kPanel, b);
    cp_async_commit();
  };

  T sums[kEach][kEach] = {};
  for (int s = 0; s < kStages - 1; s++) issue_load(s);
  int now = 0;
  for (int64_t from_k = 0; from_k < args.k; from_k += kDepth) {
    cp_async_wait<kStages - 2>();
    __syncthreads();  // all copies of this panel have arrived, and all have read the one before it, whose place is free
    issue_load(now == 0 ? kStages - 1 : now - 1);
    multiply_panels<ByEight>(stage(now), stage(now) + kPanel, sums);
    now = now == kStages - 1 ? 0 : now + 1;
  }
  store_tile(args, corner, sums);
}

}  // namespace

void async_pipeline(const MatmulArgs& args, Context& context) {
  with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
    launch_tiles<kTile, kTile>(multiply_copied_panels<T>, args, context, kThreads, kStages * 2 * kPanel * sizeof(T));
  });
}

}  // namespace torch_reductions::cuda::matmul
