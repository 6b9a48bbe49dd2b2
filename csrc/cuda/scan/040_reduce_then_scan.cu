// Changes: the first pass only reduces, so nothing is written that would be written again; the last pass scans each
//          part from its base on.
// Costs:   3 accesses per element: it is read twice and its result written once; the totals still need memory for each
//          level.
// Gains:   a quarter of the traffic, and a reduction is cheaper than a scan.
// Order:   the totals: trees over lanes and warps, scanned as elements are; base, then log2 steps over lanes and warps.
// Needs:   compute capability 7.5; 128 to 1024 threads per block, as for scan_then_fan.
// See:     Wilt, The CUDA Handbook (2013), chapter 13, "Reduce, Then Scan".
#include "textbook.cuh"

namespace torch_reductions::cuda::scan {
namespace {

template <class Op, class T, class A = typename Op::Value>
__global__ void reduce_parts_kernel(ScanRows<Op, T> rows, A* totals, unsigned parts) {
  const int64_t row = blockIdx.x / parts, k = int64_t(blockIdx.x % parts) * blockDim.x + threadIdx.x;
  const A total = fold_block<Op>(rows.load(row, k));
  if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

// totals: scanned, so that a part's base is the total of the part before it.
template <class Op, class T, class A = typename Op::Value>
__global__ void scan_parts_kernel(ScanRows<Op, T> rows, const A* totals, unsigned parts) {
  const int64_t row = blockIdx.x / parts, k = int64_t(blockIdx.x % parts) * blockDim.x + threadIdx.x;
  const BlockScan<WarpScan<Op>> block;
  A total;
  A value = block.scan(rows.load(row, k), total);
  if (blockIdx.x % parts > 0) value = Op::combine(totals[blockIdx.x - 1], value);
  rows.store(row, k, value);
}

template <class Op, class T>
void scan(const ScanRows<Op, T>& rows, int64_t outer, Context& context, int threads) {
  using A = typename Op::Value;
  const RowConfig config(rows.length, threads);
  A* const totals = config.parts > 1 ? workspace<A>(context, outer * config.parts) : nullptr;
  if (config.parts > 1) {
    launch_parts(outer, config.parts, [&](int64_t row, int64_t blocks) {
      launch(reduce_parts_kernel<Op, T>, blocks, config.threads, 0, context.stream, rows.from(row),
             totals + row * config.parts, config.parts);
    });
    scan(ScanRows<Op, A>{totals, totals, config.parts, config.parts, false, false}, outer, context, threads);
  }
  launch_parts(outer, config.parts, [&](int64_t row, int64_t blocks) {
    launch(scan_parts_kernel<Op, T>, blocks, config.threads, 0, context.stream, rows.from(row),
           totals + row * config.parts, config.parts);
  });
}

}  // namespace

void reduce_then_scan(const ScanArgs& args, Context& context, int threads) {
  with_rows(args, context, [&](const auto& rows) { scan(rows, args.outer, context, threads); });
}

}  // namespace torch_reductions::cuda::scan
