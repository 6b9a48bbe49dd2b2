// Long rows: a block folds a row, or a tile of 2^k elements of one.
// Local:   split_rows (8 bytes): an address, spilled and read again around the loop, for a third block.
#pragma once
#include "rows.cuh"
#include "split.cuh"

namespace torch_reductions::cuda::reduce {

inline constexpr int kLogRowWarps = 3;  // of a block, at most
inline constexpr int kLogMaxUnits = 5;  // of a warp: of a whole tile a lane keeps each

template <class Value>
struct BlockFold {
  Value total[1 << kLogRowWarps], digit[kMaxDigits];
};

// Of two values with an index that stand anywhere.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_by_index(typename Op::Value one, typename Op::Value other) {
  return other.index < one.index ? Op::combine(other, one) : Op::combine(one, other);
}

// A block folds the n <= 2^log_tile elements of a tile, each warp 2^log_span of them. Returns in its first warp the
// tile's total if it is whole; otherwise digit[k] is digit k there wherever bit k of n is set. p's element stands at
// `index`.
template <class S>
__device__ __forceinline__ typename S::Value fold_tile(const S& source, const char* p, int64_t n, int log_span,
                                                       int64_t index, BlockFold<typename S::Value>& shared) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogUnit = kLogUnit<S>;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int64_t start = int64_t(warp) << log_span, left = n - start;
  const int count = left <= 0 ? 0 : left < 1 << log_span ? int(left) : 1 << log_span;
  // An index tells which extreme comes first: there a lane folds its own elements of all units, and what all lanes have
  // stands for every digit. (Without one, -0 and +0 are told apart by their order alone.)
  constexpr bool kOrdered = !IsIndexed<Value>::value;
  Value wait[kOrdered ? kLogMaxUnits + 1 : 1][1];
  if constexpr (!kOrdered) wait[0][0] = Op::identity();
  for (int u = 0; u << LogUnit < count; u++) {
    const int first = u << LogUnit;
    Value q[S::kGroups];
    load_unit(source, q, p + start * S::kBytes, first, count - first, lane, index + start);
    if (first + (1 << LogUnit) <= count) {
      if constexpr (kOrdered) {
        Value v[1] = {unit_total<Op>(q, lane)};
        push<Op, 1>(wait, v, u);
      } else {
        wait[0][0] = Op::combine(wait[0][0], tree<Op, S::kGroups>(q));
      }
    } else {
      const int64_t at = start + first;
      const Value rest = load_rest(source, p + at * S::kBytes, count - first, lane, index + at);
      Tail<S>(q, rest, count - first, lane).store(shared.digit, lane);
    }
  }
  if constexpr (!kOrdered)
#pragma unroll
    for (int k = 0; k < 5; k++) wait[0][0] = fold_by_index<Op>(wait[0][0], shuffle_xor(wait[0][0], 1 << k));
  if (lane == 0)
    static_for<kLogMaxUnits + 1>([&](auto k) {
      if (count >> (LogUnit + k.value) & 1)
        (count == 1 << log_span ? shared.total[warp] : shared.digit[LogUnit + k.value]) =
            wait[kOrdered ? k.value : 0][0];
    });
  __syncthreads();
  Value total = Op::identity();
  if (warp == 0) {
    const int whole = int(n >> log_span);  // warps
    Value digit[5];
    total = lane_digits<Op, 5>(lane < whole ? shared.total[lane] : total, whole, digit, lane);
    if (lane == whole)
      static_for<kLogRowWarps + 1>([&](auto k) {
        if (whole >> k.value & 1) shared.digit[log_span + k.value] = digit[k.value];
      });
    __syncwarp();
  }
  return total;
}

// A whole tile whose address is aligned: nothing to shift, nothing to leave out.
template <class S>
__device__ __forceinline__ typename S::Value fold_whole_tile(const S& source, const char* p, int log_span,
                                                             int64_t index, BlockFold<typename S::Value>& shared) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogUnit = kLogUnit<S>;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, units = 1 << (log_span - LogUnit);
  index += (int64_t(warp) << log_span) + lane * S::E;
  p += (int64_t(warp) << log_span) * S::kBytes + lane * 16;
  const uint64_t policy = evict_first();
  Value mine = Op::identity();  // lane u: the total of unit u
  for (int u = 0; u < units; u++) {
    uint32_t words[S::kGroups][4];
#pragma unroll
    for (int j = 0; j < S::kGroups; j++) load16(words[j], p + j * 512, policy);
    Value q[S::kGroups];
#pragma unroll
    for (int j = 0; j < S::kGroups; j++) q[j] = vector_tree(source, words[j], index + j * 32 * S::E);
    const Value v = unit_total<Op>(q, lane);
    if (lane == u) mine = v;
    p += kUnitBytes<S>;
    index += 1 << LogUnit;
  }
#pragma unroll 1
  for (int k = 0; 1 << k < units; k++) mine = xor_step<Op>(mine, k, lane);
  if (lane == 0) shared.total[warp] = mine;
  __syncthreads();
  Value total = lane < blockDim.x >> 5 ? shared.total[lane] : Op::identity();
#pragma unroll
  for (int k = 0; k < kLogRowWarps; k++) total = xor_step<Op>(total, k, lane);
  return total;
}

// Blocks per multiprocessor: as many as leave everything in registers.
template <class S, bool Whole>
inline constexpr int kRowBlocks = sizeof(typename S::Value) == 4   ? (Whole ? 5 : 3)
                                  : sizeof(typename S::Value) == 8 ? (Whole ? 5 : 2)
                                                                   : 2;

// The first split.lines * split.tiles blocks fold a tile each. Whole: the length is a number of tiles, all aligned.
template <class S, bool Whole>
__global__ void __launch_bounds__(32 << kLogRowWarps, kRowBlocks<S, Whole>)
    split_rows(S source, Lines rows, Output out, int log_span, Split split) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  __shared__ BlockFold<Value> shared;
  const unsigned workers = split.lines * split.tiles;
  const bool several = split.tiles > 1;
  if (blockIdx.x >= workers) return read_lines<Op>(split, out, blockIdx.x - workers);
  uint64_t number = 0;
  if (Whole && several && threadIdx.x < 32) number = launch_number(split.tile_state);
  const unsigned row = split.lines == 1 ? 0 : blockIdx.x / split.tiles, tile = blockIdx.x - row * split.tiles;
  const int64_t start = int64_t(tile) << split.log_tile, left = split.length - start,
                full = int64_t(1) << split.log_tile, n = left < full ? left : full;
  const char* const p = rows.line(row) + start * S::kBytes;
  const int k = threadIdx.x;
  Value total;
  if constexpr (Whole) total = fold_whole_tile(source, p, log_span, start, shared);
  else total = fold_tile(source, p, n, log_span, start, shared);
  if (k >= 32) return;
  if (!Whole && several) number = launch_number(split.tile_state);  // there is no register to keep it in
  if (Whole || n == full) {
    if (k > 0) return;
    if (several) publish_total(split, row, tile, total, launch_tag(number));
    else out.store<Op>(row, total);
  } else if (several) {
    if (k < split.log_tile && n >> k & 1) publish_digit(split, row, k, shared.digit[k], launch_tag(number));
  } else if (k == 0) {
    out.store<Op>(row, fold_set_digits<Op>(Op::identity(), shared.digit, n));
  }
}

}  // namespace torch_reductions::cuda::reduce
