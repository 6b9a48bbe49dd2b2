// What the textbook's scans share: rows in the order of the scan, how they are split, and the scans of a warp and of a
// block.
//
// The input is [outer, length] in contiguous rows. A row is split into parts: number i is part i % parts of row
// i / parts.
#pragma once

#include "../../common/ceil_div.h"
#include "../primitives/warp.cuh"
#include "ladder.h"

namespace torch_reductions::cuda::scan {

inline constexpr int kMaxWarps = 32;  // of a block
inline constexpr int64_t kMaxBlocks = 0x7fffffff;

// Rows and their results, counted in the order of the scan: from the end where it is a reverse one. An exclusive scan
// is an inclusive one whose results go one place further, behind Fold(0), as many as there are places.
template <class Op, class T>
struct ScanRows {
  using A = typename Op::Value;
  const T* input;
  T* output;
  int64_t length, results;
  bool exclusive, reverse;

  ScanRows from(int64_t row) const {
    return {input + row * length, output + row * results, length, results, exclusive, reverse};
  }
  // The identity beyond the end.
  __device__ A load(int64_t row, int64_t k) const {
    return k < length ? A(input[row * length + (reverse ? length - 1 - k : k)]) : Op::identity();
  }
  __device__ T& result(int64_t row, int64_t j) const { return output[row * results + (reverse ? results - 1 - j : j)]; }
  // Fold(0), which is 0 where the identity is -0.
  __device__ void store_empty_value(int64_t row) const { result(row, 0) = std::is_same_v<Op, Sum<A>> ? 0 : 1; }
  // Stores the fold of the elements up to k; nothing beyond the end.
  __device__ void store(int64_t row, int64_t k, A value) const {
    if (exclusive && k == 0) store_empty_value(row);
    if (k + exclusive < results) result(row, k + exclusive) = T(value);
  }
  // base stands before what is stored.
  __device__ void put_before(int64_t row, int64_t k, A base) const {
    if (k + exclusive >= results) return;
    T& stored = result(row, k + exclusive);
    stored = T(Op::combine(base, A(stored)));
  }
};

template <class Op, class T>
__global__ void empty_value_kernel(ScanRows<Op, T> rows, int64_t outer) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < outer) rows.store_empty_value(row);
}

// body(rows) with the types and operators of the textbook's rungs, and at least one element per row.
template <class Body>
void with_rows(const ScanArgs& args, Context& context, Body body) {
  const auto with_operator = [&]<class T, class Op>(std::type_identity<T>, std::type_identity<Op>) {
    const ScanRows<Op, T> rows{static_cast<const T*>(args.input),
                               static_cast<T*>(args.output),
                               args.length,
                               args.results,
                               args.exclusive,
                               args.reverse};
    if (args.length > 0) return body(rows);
    launch(empty_value_kernel<Op, T>, ceil_div(args.outer, 256), 256, 0, context.stream, rows, args.outer);
  };
  const auto with_type = [&]<class T>(std::type_identity<T> type) {
    switch (args.function) {
      case Scan::cumsum: return with_operator(type, std::type_identity<Sum<Accumulator<T>>>());
      case Scan::cumprod: return with_operator(type, std::type_identity<Prod<Accumulator<T>>>());
      default: fail("this rung has cumsum and cumprod only");
    }
  };
  switch (args.dtype) {
    case Dtype::int32: return with_type(std::type_identity<int32_t>());
    case Dtype::int64: return with_type(std::type_identity<int64_t>());
    case Dtype::float32: return with_type(std::type_identity<float>());
    case Dtype::float64: return with_type(std::type_identity<double>());
    default: fail("this rung takes int32, int64, float32 and float64");
  }
}

// Blocks of the given number of threads. 0 leaves it to the row: 128 where they split it into up to 64 parts, then 256
// and 512, and 1024 for all longer rows.
struct RowConfig {
  int threads;
  int64_t parts;

  RowConfig(int64_t length, int given, int each = 1) : threads(given != 0 ? given : 128) {
    while (given == 0 && threads < 32 * kMaxWarps && int64_t(64) * threads * each < length) threads *= 2;
    parts = ceil_div(length, int64_t(threads) * each);
  }
};

// launch_blocks(row, blocks) for the rows from `row` on: once, except for more parts than a grid has blocks.
template <class Launch>
void launch_parts(int64_t outer, int64_t parts, Launch launch_blocks) {
  const int64_t step = kMaxBlocks / parts;
  for (int64_t row = 0; row < outer; row += step) launch_blocks(row, min(step, outer - row) * parts);
}

// body(i) for the parts of a block: number blockIdx.x, or in a clamped grid every gridDim.x-th of `count` from there.
template <bool clamped, class Body>
__device__ __forceinline__ void each_part(unsigned count, Body body) {
  if constexpr (clamped) {
    for (unsigned i = blockIdx.x; i < count; i += gridDim.x) body(i);
  } else {
    body(blockIdx.x);
  }
}

// Of a grid: as many as there are parts, or at most `most` unless that is 0.
inline int64_t blocks_for(int64_t parts, int most) { return most > 0 ? min(int64_t(most), parts) : parts; }

template <class A>
A* workspace(Context& context, int64_t count) {
  return static_cast<A*>(context.workspace(size_t(count) * sizeof(A)));
}

// Inclusive scan of a warp in shared memory: at each step a value takes the one that stands 1, 2, 4, ... places before
// it. slot: the lane's own place among the warp's 32.
template <class Operator>
struct WarpScan {
  using Op = Operator;
  using A = typename Op::Value;
  static constexpr int kPadding = 0;  // identities that stand before the 32 places

  static __device__ A scan(A* slot, A value) {
    const int lane = threadIdx.x % 32;
    *slot = value;
    __syncwarp();
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      if (lane >= step) value = Op::combine(slot[-step], value);
      __syncwarp();  // all have read
      *slot = value;
      __syncwarp();
    }
    return value;
  }
};

// Inclusive scan of a block: its warps' scans, the scan of their totals, and for each warp the total of those before
// it.
template <class Warp>
class BlockScan {
  using Op = typename Warp::Op;
  using A = typename Warp::A;

 public:
  __device__ BlockScan() : lane_(threadIdx.x % 32), warp_(threadIdx.x / 32), warps_(blockDim.x / 32) {
    __shared__ A places[kMaxWarps * (Warp::kPadding + 32)];
    __shared__ A totals[kMaxWarps];
    A* const own = places + warp_ * (Warp::kPadding + 32);
    if (lane_ < Warp::kPadding) own[lane_] = Op::identity();
    slot_ = own + Warp::kPadding + lane_, totals_ = totals;
  }

  // Every thread of the block calls it, and is told the block's total.
  __device__ A scan(A value, A& total) const {
    value = Warp::scan(slot_, value);
    if (lane_ == 31) totals_[warp_] = value;
    __syncthreads();
    if (warp_ == 0) {
      const A scanned = Warp::scan(slot_, lane_ < warps_ ? totals_[lane_] : Op::identity());
      if (lane_ < warps_) totals_[lane_] = scanned;
    }
    __syncthreads();
    if (warp_ > 0) value = Op::combine(totals_[warp_ - 1], value);
    total = totals_[warps_ - 1];
    __syncthreads();  // the next scan writes the totals
    return value;
  }

 private:
  const int lane_, warp_, warps_;
  A *slot_, *totals_;
};

// The fold of the warp's values, in every lane.
template <class Op, class A = typename Op::Value>
__device__ A fold_warp(A value) {
#pragma unroll
  for (int bit = 0; bit < 5; bit++) value = xor_step<Op>(value, bit, threadIdx.x % 32);
  return value;
}

// The fold of the block's values, in thread 0.
template <class Op, class A = typename Op::Value>
__device__ A fold_block(A value) {
  __shared__ A folds[kMaxWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = fold_warp<Op>(value);
  if (lane == 0) folds[warp] = value;
  __syncthreads();
  if (warp == 0) value = fold_warp<Op>(lane < int(blockDim.x) / 32 ? folds[lane] : Op::identity());
  return value;
}

}  // namespace torch_reductions::cuda::scan
