// Changes: the first pass only reduces, so nothing is written that would be written again; the last pass scans each
//          part from its base on.
// Costs:   3 accesses per element: it is read twice and its result written once; the totals still need memory for each
//          level.
// Gains:   a quarter of the traffic less, and a reduction is cheaper than a scan. With one element a thread no pass is
//          bound by traffic: on an H100 it gains little or nothing (docs/ladder.md, Book and machine).
// Order:   the totals: trees over lanes and warps, scanned as elements are; base, then log2 steps over lanes and warps.
// Needs:   compute capability 7.5; 128 to 1024 threads per block, and a block per part or at most 150 blocks, as for
//          scan_then_fan.
// See:     Wilt, The CUDA Handbook (2013), chapter 13, "Reduce, Then Scan".
#include "textbook.cuh"

namespace torch_reductions::cuda::scan {
namespace {

template <bool clamped, class Op, class T, class A = typename Op::Value>
__global__ void reduce_parts_kernel(ScanRows<Op, T> rows, A* totals, unsigned parts, unsigned count) {
  each_part<clamped>(count, [&](unsigned i) {
    const int64_t row = i / parts, k = int64_t(i % parts) * blockDim.x + threadIdx.x;
    if (i != blockIdx.x) __syncthreads();  // the folds of the part before have been read
    const A total = fold_block<Op>(rows.load(row, k));
    if (threadIdx.x == 0) totals[i] = total;
  });
}

// totals: scanned, so that a part's base is the total of the part before it.
template <bool clamped, class Op, class T, class A = typename Op::Value>
__global__ void scan_parts_kernel(ScanRows<Op, T> rows, const A* totals, unsigned parts, unsigned count) {
  const BlockScan<WarpScan<Op>> block;
  each_part<clamped>(count, [&](unsigned i) {
    const int64_t row = i / parts, k = int64_t(i % parts) * blockDim.x + threadIdx.x;
    A total;
    A value = block.scan(rows.load(row, k), total);
    if (i % parts > 0) value = Op::combine(totals[i - 1], value);
    rows.store(row, k, value);
  });
}

template <class Op, class T>
void scan(const ScanRows<Op, T>& rows, int64_t outer, Context& context, int threads, int most) {
  using A = typename Op::Value;
  const RowConfig config(rows.length, threads);
  A* const totals = config.parts > 1 ? workspace<A>(context, outer * config.parts) : nullptr;
  if (config.parts > 1) {
    launch_parts(outer, config.parts, [&](int64_t row, int64_t parts) {
      launch(most > 0 ? reduce_parts_kernel<true, Op, T> : reduce_parts_kernel<false, Op, T>, blocks_for(parts, most),
             config.threads, 0, context.stream, rows.from(row), totals + row * config.parts, config.parts, parts);
    });
    scan(ScanRows<Op, A>{totals, totals, config.parts, config.parts, false, false}, outer, context, threads, most);
  }
  launch_parts(outer, config.parts, [&](int64_t row, int64_t parts) {
    launch(most > 0 ? scan_parts_kernel<true, Op, T> : scan_parts_kernel<false, Op, T>, blocks_for(parts, most),
           config.threads, 0, context.stream, rows.from(row), totals + row * config.parts, config.parts, parts);
  });
}

}  // namespace

void reduce_then_scan(const ScanArgs& args, Context& context, int threads, int most) {
  with_rows(args, context, [&](const auto& rows) { scan(rows, args.outer, context, threads, most); });
}

}  // namespace torch_reductions::cuda::scan
