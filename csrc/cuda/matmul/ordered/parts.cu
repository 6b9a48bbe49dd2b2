// Products in parts, of any kernel: each part of k is a product of its own, whose sums go to a plane as large as the
// result; a second kernel joins the planes.
#include <algorithm>
#include <bit>
#include <vector>

#include "../ladder.h"
#include "instances.h"
#include "split_k.cuh"
#include "tuning.h"

namespace torch_reductions::cuda::matmul {
namespace {

constexpr int kJoined = 8;                          // planes at once
constexpr int64_t kPlanesBytes = int64_t(4) << 20;  // of these, for each multiprocessor

// Joins planes 0 ... count - 1, then what waits at `levels`, from the lowest on, each of which is as large as a plane.
// The total goes to `into`, or is the result.
template <class P, class Out>
__global__ void __launch_bounds__(kFoldThreads) join_planes(const __grid_constant__ MatmulArgs args, const P* planes,
                                                            int count, const P* waiting, unsigned levels, P* into) {
  const int64_t elements = args.batch * args.m * args.n;
  const int64_t index = int64_t(blockIdx.x) * kFoldThreads + threadIdx.x;
  if (index >= elements) return;
  P values[kJoined];
#pragma unroll
  for (int i = 0; i < kJoined; i++)
    if (i < count) values[i] = planes[i * elements + index];
#pragma unroll
  for (int step = 1; step < kJoined; step *= 2)
#pragma unroll
    for (int i = 0; i + step < kJoined; i += 2 * step)
      if (i + step < count) values[i] += values[i + step];
  P total = values[0];
  for (; levels != 0; levels &= levels - 1) total = waiting[(__ffs(int(levels)) - 1) * elements + index] + total;
  if (into != nullptr) into[index] = total;
  else store_at<Out>(args, index, total);
}

// Memory that a part's kernels ask for is that of the part before, whose kernels have run.
class PartContext : public Context {
 public:
  explicit PartContext(Context& whole) : Context(whole.device, whole.stream), whole_(whole) {}

  void next() { used_ = 0; }

  void* workspace(size_t bytes) override {
    if (used_ == kept_.size()) kept_.push_back({nullptr, 0});
    Kept& kept = kept_[used_++];
    if (kept.bytes < bytes) kept = {whole_.workspace(bytes), bytes};
    return kept.memory;
  }

 private:
  struct Kept {
    void* memory;
    size_t bytes;
  };

  Context& whole_;
  std::vector<Kept> kept_;
  size_t used_ = 0;
};

template <class P, class Out>
void multiply_parts(const MatmulArgs& args, Context& context) {
  const int64_t elements = args.batch * args.m * args.n, length = ceil_div(args.k, int64_t(args.parts));
  const int64_t most = kPlanesBytes * multiprocessors(context.device) / (elements * int64_t(sizeof(P)));
  // A power of two, so that the planes of a group are a part of the tree.
  const int group = int(std::bit_floor(uint64_t(std::clamp(most, int64_t(1), int64_t(kJoined)))));
  const int groups = int(ceil_div(int64_t(args.parts), int64_t(group)));
  const int levels = groups > 1 ? std::bit_width(unsigned(groups - 1)) : 0;
  P* const planes = static_cast<P*>(context.workspace(size_t(group + levels) * elements * sizeof(P)));
  P* const waiting = planes + group * elements;

  PartContext parts(context);
  MatmulArgs part = args;
  part.parts = 1;
  part.output_dtype = sizeof(P) == 4 ? Dtype::float32 : Dtype::float64;
  part.alpha = 1, part.added.data = nullptr;
  const int64_t size = size_of(args.dtype);
  for (int g = 0; g < groups; g++) {
    const int count = std::min(group, args.parts - g * group);
    for (int i = 0; i < count; i++) {
      const int64_t begin = (int64_t(g) * group + i) * length;
      part.a.data = static_cast<const char*>(args.a.data) + begin * args.a.column_stride * size;
      part.b.data = static_cast<const char*>(args.b.data) + begin * args.b.row_stride * size;
      part.k = std::min(length, args.k - begin);
      part.output = planes + i * elements;
      parts.next();
      ordered(part, parts);
    }
    launch(join_planes<P, Out>, ceil_div(elements, int64_t(kFoldThreads)), kFoldThreads, 0, context.stream, args,
           planes, count, waiting, joined_levels(unsigned(g), unsigned(groups)),
           g + 1 < groups ? waiting + level_of(unsigned(g)) * elements : nullptr);
  }
}

}  // namespace

bool tiles_take_parts(const MatmulArgs& args, const Context& context) {
  const bool wide = args.dtype == Dtype::float32 || args.dtype == Dtype::float64;
  const int64_t tiles =
      args.batch * ceil_div(args.m, int64_t(SmallTile::kM)) * ceil_div(args.n, int64_t(SmallTile::kN));
  return wide && args.k <= kMostDepth && ceil_div(args.k, int64_t(args.parts)) % kPartDepth == 0 &&
         std::min(args.m, args.n) >= kPartLines && tiles >= multiprocessors(context.device);
}

void multiply_parts(const MatmulArgs& args, Context& context) {
  with_product_types(args.dtype, args.output_dtype,
                     [&]<class T, class Out>(std::type_identity<T>, std::type_identity<Out>) {
                       if constexpr (std::is_floating_point_v<ProductOf<T>>)
                         multiply_parts<ProductOf<T>, Out>(args, context);
                     });
}

}  // namespace torch_reductions::cuda::matmul
