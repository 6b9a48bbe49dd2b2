// ordered
// Changes: 128 points at a time, with neighbouring points in vectors, and strips of points for the threads. This is
//          what auto runs.
// Costs:   a copy of the coordinates, which fits into the first-level cache where there are few.
// Gains:   a vector of points per step, and several vectors at once, so that none waits for its own last addition.
// Order:   Fold(C) of Fold(D), docs/order.md: that of the loops.
// Needs:   any processor; AVX2 and AVX-512 are used where available.
// See:     ordered_kernels.h, the vector code.
#include <algorithm>
#include <vector>

#include "../../common/ceil_div.h"
#include "../convert.h"
#include "../processor.h"
#include "ladder.h"
#include "ordered.h"

namespace torch_reductions::cpu::distance {
namespace {

constexpr int64_t kMostDims = 8192;  // with more, a strip is larger than any cache

AddDistances kernel_of(Dtype dtype) {
#ifdef __x86_64__
  static constexpr const DistanceKernels* kCompiled[] = {&distance_baseline, &distance_avx2, &distance_avx512};
  return kCompiled[int(processor())]->add[int(dtype)];
#else
  return distance_baseline.add[int(dtype)];
#endif
}

template <class T>
void run(const DistanceArgs& args, const Threads& threads) {
  using A = Accumulator<T>;
  const AddDistances add = kernel_of(args.dtype);
  const int64_t steps = args.centers_count * args.dims;
  std::vector<A> centers(steps);
  for (int64_t i = 0; i < steps; i++) centers[i] = A(widen(static_cast<const T*>(args.centers)[i]));
  const auto body = [&](int64_t begin, int64_t end) {
    std::vector<A> coordinates(args.dims * kPointStrip);
    const int64_t first = begin * kPointStrip;
    add(args, {first, std::min(end * kPointStrip, args.count) - first, centers.data(), coordinates.data()});
  };
  const int64_t strips = ceil_div(args.count, kPointStrip), work = kPointStrip * (steps + args.dims + 1);
  if (threads.count == 1 || strips == 1 || strips * work <= kGrain) return body(0, strips);
  threads.parallel_for(0, strips, ceil_div(kGrain, work), body);
}

}  // namespace

void ordered(const DistanceArgs& args, const Threads& threads) {
  if (args.dims > kMostDims) return sequential(args, threads);
  with_storage(args.dtype, [&](auto storage) {
    using T = typename decltype(storage)::type;
    if constexpr (!std::is_integral_v<T>) run<T>(args, threads);
  });
}

}  // namespace torch_reductions::cpu::distance
