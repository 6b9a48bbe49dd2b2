// Changes: against the CPU's loop: blocks scan their parts, the parts' totals are scanned in the same way, and what
//          stands before a part is fanned out to all of its results.
// Costs:   4 accesses per element: it is read, and its result written, read and written again; a launch or two per
//          level.
// Gains:   every element is worked on at once, and each level has at most a 128th of the elements of the one below.
// Order:   log2 steps over 32 lanes, then over the warps of a block; the same over the totals; base, then result.
// Needs:   compute capability 7.5; 128 to 1024 threads per block: by the row's length, or as many as the
//          variant says (scan_then_fan:256).
// See:     Wilt, The CUDA Handbook (2013), chapter 13, "Scan, Then Fan".
#include "textbook.cuh"

namespace torch_reductions::cuda::scan {
namespace {

template <class Op, class T, class A = typename Op::Value>
__global__ void scan_parts_kernel(ScanRows<Op, T> rows, A* totals, unsigned parts) {
  const int64_t row = blockIdx.x / parts, k = int64_t(blockIdx.x % parts) * blockDim.x + threadIdx.x;
  const BlockScan<WarpScan<Op>> block;
  A total;
  const A value = block.scan(rows.load(row, k), total);
  rows.store(row, k, value);
  if (parts > 1 && threadIdx.x == 0) totals[blockIdx.x] = total;
}

// totals: scanned, so that a part's base is the total of the part before it.
template <class Op, class T, class A = typename Op::Value>
__global__ void fan_kernel(ScanRows<Op, T> rows, const A* totals, unsigned parts) {
  const int64_t row = blockIdx.x / parts, k = int64_t(blockIdx.x % parts) * blockDim.x + threadIdx.x;
  if (blockIdx.x % parts > 0) rows.put_before(row, k, totals[blockIdx.x - 1]);
}

template <class Op, class T>
void scan(const ScanRows<Op, T>& rows, int64_t outer, Context& context, int threads) {
  using A = typename Op::Value;
  const RowConfig config(rows.length, threads);
  A* const totals = config.parts > 1 ? workspace<A>(context, outer * config.parts) : nullptr;
  launch_parts(outer, config.parts, [&](int64_t row, int64_t blocks) {
    launch(scan_parts_kernel<Op, T>, blocks, config.threads, 0, context.stream, rows.from(row),
           totals + row * config.parts, config.parts);
  });
  if (config.parts == 1) return;
  scan(ScanRows<Op, A>{totals, totals, config.parts, config.parts, false, false}, outer, context, threads);
  launch_parts(outer, config.parts, [&](int64_t row, int64_t blocks) {
    launch(fan_kernel<Op, T>, blocks, config.threads, 0, context.stream, rows.from(row), totals + row * config.parts,
           config.parts);
  });
}

}  // namespace

void scan_then_fan(const ScanArgs& args, Context& context, int threads) {
  with_rows(args, context, [&](const auto& rows) { scan(rows, args.outer, context, threads); });
}

}  // namespace torch_reductions::cuda::scan
