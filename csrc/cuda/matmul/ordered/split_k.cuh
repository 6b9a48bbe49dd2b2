// Split-k: products whose k is split over blocks. The values of the chunks go to partials in the workspace, each as
// large as the result, and are added from left to right.
#pragma once
#include <algorithm>

#include "../../../common/ceil_div.h"
#include "../../primitives/async.cuh"
#include "../../primitives/dependent.cuh"
#include "../../primitives/launch.h"
#include "../../primitives/shared.cuh"
#include "../elements.cuh"

namespace torch_reductions::cuda::matmul {

// Threads of a block that adds partials, and how many groups of loads, of how many partials, each has in flight.
inline constexpr int kFoldThreads = 128, kFoldGroups = 4, kFoldGroup = 8;
inline constexpr int64_t kPartialsBytes = 2 << 20;  // of all partials at a time, for each multiprocessor
// The cost of a launch that adds partials, and of a byte of a partial, in products of float32 that a multiprocessor
// would compute.
inline constexpr double kFoldLaunch = 1e6, kFoldByte = 10;

// Adds partials 0 ... count - 1, of which partial 0 may be a total already; `into` is where the total goes unless it is
// the last one. Without partials the products are +0.
template <class P, class Out>
__global__ void __launch_bounds__(kFoldThreads)
    add_partials(const __grid_constant__ MatmulArgs args, const P* partials, int count, P* into) {
  await_launch_before();
  const int64_t elements = args.batch * args.m * args.n;
  const int64_t index = int64_t(blockIdx.x) * kFoldThreads + threadIdx.x;
  if (index >= elements) return;
  // Each thread loads into a ring of its own: registers would not hold as many loads as memory needs in flight.
  P* const ring = reinterpret_cast<P*>(memory) + threadIdx.x;
  const P* next = partials + index;
  int issued = 0;
  const auto issue_load = [&](P* group) {
#pragma unroll
    for (int u = 0; u < kFoldGroup; u++, issued++) {
      cp_async_if<sizeof(P)>(issued < count, group + u * kFoldThreads, next);
      next = opaque(next + elements);
    }
    cp_async_commit();
  };
#pragma unroll 1
  for (int group = 0; group < kFoldGroups; group++) issue_load(ring + group * kFoldGroup * kFoldThreads);
  P total = count > 0 ? P(-0.) : P(0);  // -0 + x is x
  int group = 0;
#pragma unroll 1
  for (int first = 0; first < count; first += kFoldGroup) {
    P* const own = ring + group * kFoldGroup * kFoldThreads;
    group = group == kFoldGroups - 1 ? 0 : group + 1;
    cp_async_wait<kFoldGroups - 1>();
#pragma unroll
    for (int u = 0; u < kFoldGroup; u++)
      if (first + u < count) total += own[u * kFoldThreads];
    issue_load(own);
  }
  if (into != nullptr) {
    into[index] = total;
    return;
  }
  store_at<Out>(args, index, total);
}

// multiply(first, count, partials) stores chunk first + c in partial c. Rounds bound the workspace: each begins with
// the total of the one before.
template <class P, class Out, class Multiply>
void multiply_split_k(const MatmulArgs& args, Context& context, int64_t chunks, int64_t at_once, Multiply multiply) {
  constexpr size_t kBytes = sizeof(P) * kFoldThreads * kFoldGroups * kFoldGroup;
  const int64_t elements = args.batch * args.m * args.n;
  const bool has_rounds = at_once < chunks;
  P* const partials =
      chunks == 0
          ? nullptr
          : static_cast<P*>(context.workspace(size_t(std::min(at_once, chunks) + has_rounds) * elements * sizeof(P)));
  for (int64_t first = 0; first < chunks || first == 0; first += at_once) {
    const int64_t count = std::min(at_once, chunks - first);
    P* const fresh = has_rounds ? partials + elements : partials;
    if (count > 0) multiply(first, count, fresh);
    launch_dependent(add_partials<P, Out>, ceil_div(elements, int64_t(kFoldThreads)), kFoldThreads, kBytes, context,
                     args, first > 0 ? partials : fresh, int(count) + (first > 0),
                     first + count < chunks ? partials : nullptr);
  }
}

// As many partials as fit the workspace.
inline int64_t partials_at_once(const MatmulArgs& args, int64_t size, int64_t processors) {
  return std::max(kPartialsBytes * processors / (args.batch * args.m * args.n * size), int64_t(1));
}

// multiply_split_k over the chunks that products of T on tensor cores have, as many at once as fit the workspace.
template <class T, class Multiply>
void in_chunks(const MatmulArgs& args, Context& context, Multiply multiply) {
  const int64_t chunks = ceil_div(args.k, kTensorChunk);
  const int64_t at_once = partials_at_once(args, sizeof(float), multiprocessors(context.device));
  if (args.output_dtype == args.dtype) multiply_split_k<float, T>(args, context, chunks, at_once, multiply);
  else multiply_split_k<float, float>(args, context, chunks, at_once, multiply);
}

// About how many cycles a device takes to add the partials of `chunks` chunks, of float32.
inline double fold_cycles(const MatmulArgs& args, int64_t chunks, int64_t processors) {
  constexpr double kProducts = 128;  // of float32 that a multiprocessor computes a cycle
  const int64_t rounds = ceil_div(chunks, partials_at_once(args, sizeof(float), processors));
  const double bytes = double(args.batch) * args.m * args.n * chunks * sizeof(float);
  return (kFoldLaunch * rounds + kFoldByte * bytes / processors) / kProducts;
}

}  // namespace torch_reductions::cuda::matmul
