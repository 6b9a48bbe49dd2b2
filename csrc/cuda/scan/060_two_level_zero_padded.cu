// Changes: 16 identities ("zeros") stand before the shared memory of each warp, for the lanes that have nothing before
//          them.
// Costs:   half as much shared memory again, and the first 16 places of each warp are written once per block.
// Gains:   no step of a warp's scan has a condition: every lane reads and combines at each. A condition is a predicate,
//          not a branch, so an H100 gains little (docs/ladder.md, Book and machine).
// Order:   that of two_level: a combination with the identity changes no bit.
// Needs:   compute capability 7.5; 128 to 1024 threads per block, as for scan_then_fan.
// See:     Wilt, The CUDA Handbook (2013), chapter 13, "Warp Scans" and their zero padding; two_level.cuh, the kernels.
#include "two_level.cuh"

namespace torch_reductions::cuda::scan {
namespace {

template <class Operator>
struct ZeroPaddedWarpScan {
  using Op = Operator;
  using A = typename Op::Value;
  static constexpr int kPadding = 16;  // the last step reads so far back

  static __device__ A scan(A* slot, A value) {
    *slot = value;
    __syncwarp();
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      value = Op::combine(slot[-step], value);
      __syncwarp();  // all have read
      *slot = value;
      __syncwarp();
    }
    return value;
  }
};

}  // namespace

void two_level_zero_padded(const ScanArgs& args, Context& context, int threads) {
  with_rows(args, context,
            [&](const auto& rows) { scan_two_level<ZeroPaddedWarpScan>(rows, args.outer, context, threads); });
}

}  // namespace torch_reductions::cuda::scan
