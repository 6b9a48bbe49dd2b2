// Changes: against the CPU's loop: blocks scan their parts, the parts' totals are scanned in the same way, and what
//          stands before a part is fanned out to all of its results.
// Costs:   4 accesses per element: it is read, and its result written, read and written again; a launch or two per
//          level.
// Gains:   every element is worked on at once, and each level has at most a 128th of the elements of the one below.
// Order:   log2 steps over 32 lanes, then over the warps of a block; the same over the totals; base, then result.
// Needs:   compute capability 7.5; 128 to 1024 threads per block: by the row's length, or as many as the
//          variant says (scan_then_fan:256). One block per part; or, as in the book's programs, 256 threads and
//          at most 150 blocks (scan_then_fan:256x150), each of which takes every 150th part.
// See:     Wilt, The CUDA Handbook (2013), chapter 13, "Scan, Then Fan".
#include "textbook.cuh"

namespace torch_reductions::cuda::scan {
namespace {

template <bool clamped, class Op, class T, class A = typename Op::Value>
__global__ void scan_parts_kernel(ScanRows<Op, T> rows, A* totals, unsigned parts, unsigned count) {
  const BlockScan<WarpScan<Op>> block;
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
