// Fill in: the inclusive scan of a warp by shuffles. Lane k must return the fold of the values of lanes 0 to k, in this
// order; __shfl_up_sync(~0u, value, step) gives the value of the lane `step` below, in five steps.
// Check: python -m torch_reductions try --check fill_warp_scan [FILE]
#include "textbook.cuh"

namespace torch_reductions::cuda::scan {
namespace {

template <class Operator>
struct ShuffleScan {
  using Op = Operator;
  using A = typename Op::Value;
  static constexpr int kPadding = 0;

  static __device__ A scan(A*, A value) {
    // Your code: use Op::combine(lower, value).
    return value;
  }
};

template <bool clamped, class Op, class T, class A = typename Op::Value>
__global__ void scan_parts_kernel(ScanRows<Op, T> rows, A* totals, unsigned parts, unsigned count) {
  const BlockScan<ShuffleScan<Op>> block;
  each_part<clamped>(count, [&](unsigned i) {
    const int64_t row = i / parts, k = int64_t(i % parts) * blockDim.x + threadIdx.x;
    A total;
    const A value = block.scan(rows.load(row, k), total);
    rows.store(row, k, value);
    if (parts > 1 && threadIdx.x == 0) totals[i] = total;
  });
}

// totals: scanned, so that a part's base is the total of the part before it.
template <bool clamped, class Op, class T, class A = typename Op::Value>
__global__ void fan_kernel(ScanRows<Op, T> rows, const A* totals, unsigned parts, unsigned count) {
  each_part<clamped>(count, [&](unsigned i) {
    const int64_t row = i / parts, k = int64_t(i % parts) * blockDim.x + threadIdx.x;
    if (i % parts > 0) rows.put_before(row, k, totals[i - 1]);
  });
}

template <class Op, class T>
void scan(const ScanRows<Op, T>& rows, int64_t outer, Context& context, int threads, int most) {
  using A = typename Op::Value;
  const RowConfig config(rows.length, threads);
  A* const totals = config.parts > 1 ? workspace<A>(context, outer * config.parts) : nullptr;
  launch_parts(outer, config.parts, [&](int64_t row, int64_t parts) {
    launch(most > 0 ? scan_parts_kernel<true, Op, T> : scan_parts_kernel<false, Op, T>, blocks_for(parts, most),
           config.threads, 0, context.stream, rows.from(row), totals + row * config.parts, config.parts, parts);
  });
  if (config.parts == 1) return;
  scan(ScanRows<Op, A>{totals, totals, config.parts, config.parts, false, false}, outer, context, threads, most);
  launch_parts(outer, config.parts, [&](int64_t row, int64_t parts) {
    launch(most > 0 ? fan_kernel<true, Op, T> : fan_kernel<false, Op, T>, blocks_for(parts, most), config.threads, 0,
           context.stream, rows.from(row), totals + row * config.parts, config.parts, parts);
  });
}

}  // namespace

void scan_then_fan(const ScanArgs& args, Context& context, int threads, int most) {
  with_rows(args, context, [&](const auto& rows) { scan(rows, args.outer, context, threads, most); });
}

}  // namespace torch_reductions::cuda::scan
