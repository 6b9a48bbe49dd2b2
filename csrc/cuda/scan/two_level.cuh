// Reduce, then scan, with so few parts per row that one block scans their totals: what the rungs 50 and 60 share.
#pragma once
#include "textbook.cuh"

namespace torch_reductions::cuda::scan {

inline constexpr int kItemsPerThread = 4;  // of a part, while there are fewer parts than the most
inline constexpr int64_t kMaxParts = 512;

// A block's part, which its threads take a block's width at a time. The last part may end early.
struct Part {
  int64_t row, begin, end;

  __device__ Part(int64_t length, int64_t part_length, unsigned parts)
      : row(blockIdx.x / parts), begin(blockIdx.x % parts * part_length), end(min(begin + part_length, length)) {}
};

// A thread takes elements a block's width apart: sums and products do not mind the order.
template <class Op, class T, class A = typename Op::Value>
__global__ void reduce_parts_kernel(ScanRows<Op, T> rows, A* totals, int64_t part_length, unsigned parts) {
  const Part part(rows.length, part_length, parts);
  A total = Op::identity();
  for (int64_t k = part.begin + threadIdx.x; k < part.end; k += blockDim.x)
    total = Op::combine(total, rows.load(part.row, k));
  total = fold_block<Op>(total);
  if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

// One block per row, one thread per total.
template <class Warp, class A = typename Warp::A>
__global__ void scan_totals_kernel(A* totals, unsigned parts) {
  const BlockScan<Warp> block;
  const int64_t at = int64_t(blockIdx.x) * parts + threadIdx.x;
  A total;
  const A value = block.scan(threadIdx.x < parts ? totals[at] : Warp::Op::identity(), total);
  if (threadIdx.x < parts) totals[at] = value;
}

template <class Warp, class T, class Op = typename Warp::Op, class A = typename Warp::A>
__global__ void scan_parts_kernel(ScanRows<Op, T> rows, const A* totals, int64_t part_length, unsigned parts) {
  const Part part(rows.length, part_length, parts);
  const BlockScan<Warp> block;
  A base = blockIdx.x % parts > 0 ? totals[blockIdx.x - 1] : Op::identity();
  for (int64_t begin = part.begin; begin < part.end; begin += blockDim.x) {
    A total;
    const A value = block.scan(rows.load(part.row, begin + threadIdx.x), total);
    rows.store(part.row, begin + threadIdx.x, Op::combine(base, value));
    base = Op::combine(base, total);
  }
}

template <template <class> class Warp, class Op, class T>
void scan_two_level(const ScanRows<Op, T>& rows, int64_t outer, Context& context, int threads) {
  using A = typename Op::Value;
  const RowConfig config(rows.length, threads, kItemsPerThread);
  const int64_t part_length = ceil_div(config.parts, kMaxParts) * kItemsPerThread * config.threads;
  const int64_t parts = ceil_div(rows.length, part_length);
  A* const totals = parts > 1 ? workspace<A>(context, outer * parts) : nullptr;
  if (parts > 1) {
    launch_parts(outer, parts, [&](int64_t row, int64_t blocks) {
      launch(reduce_parts_kernel<Op, T>, blocks, config.threads, 0, context.stream, rows.from(row),
             totals + row * parts, part_length, parts);
    });
    launch_parts(outer, 1, [&](int64_t row, int64_t blocks) {
      launch(scan_totals_kernel<Warp<Op>>, blocks, ceil_div(parts, 32) * 32, 0, context.stream, totals + row * parts,
             parts);
    });
  }
  launch_parts(outer, parts, [&](int64_t row, int64_t blocks) {
    launch(scan_parts_kernel<Warp<Op>, T>, blocks, config.threads, 0, context.stream, rows.from(row),
           totals + row * parts, part_length, parts);
  });
}

}  // namespace torch_reductions::cuda::scan
