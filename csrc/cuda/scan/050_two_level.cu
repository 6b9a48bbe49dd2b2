// Changes: a row has at most 512 parts, however long it is: a block takes its part a block's width at a time, and one
//          block scans all totals of a row.
// Costs:   still 3 accesses per element; the rounds of a part wait for one another, though no block waits for another.
// Gains:   three launches for any length, no recursion, and no memory that grows with the row.
// Order:   a round in log2 steps, rounds from left to right; the totals: trees over rounds, then log2 steps; base,
//          result.
// Needs:   compute capability 7.5; 128 to 1024 threads per block, as for scan_then_fan.
// See:     Wilt, The CUDA Handbook (2013), chapter 13, "Reduce, Then Scan (Two-Level)"; two_level.cuh, the kernels.
#include "two_level.cuh"

namespace torch_reductions::cuda::scan {

void two_level(const ScanArgs& args, Context& context, int threads) {
  with_rows(args, context, [&](const auto& rows) { scan_two_level<WarpScan>(rows, args.outer, context, threads); });
}

}  // namespace torch_reductions::cuda::scan
