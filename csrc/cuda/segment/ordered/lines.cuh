// Lines of any strides: one thread per segment of a line, neighbouring threads with neighbouring lines.
//
// A segment of several tiles has a thread of its own for its first one; the others have a thread for each window of each
// line (job.cuh), whose blocks come first in the grid.
#pragma once
#include "../../primitives/fast_div.cuh"
#include "later_tiles.cuh"

namespace torch_reductions::cuda::segment {

inline constexpr int kLineThreads = 256;
inline constexpr int kLeastLogLineTile = 5, kLogLineTile = 10;

// The fold of n <= 2^kLogLineTile values load(0) ... load(n - 1), eight of them at a time. take(k, digit): its digits,
// from the highest down.
template <class Op, class Load, class Take>
__device__ __forceinline__ typename Op::Value fold_in_thread(int n, Load load, Take take) {
  using Value = typename Op::Value;
  constexpr int Levels = kLogLineTile - 2;
  Value wait[Levels][1], v[1], x[8], all = Op::identity();
  const auto append = [&](int k, Value digit) {
    all = Op::combine(all, digit);
    take(k, digit);
  };
  const int blocks = n >> 3, rest = n & 7;
#pragma unroll 1
  for (int b = 0; b < blocks; b++) {
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = load(b * 8 + i);
    v[0] = tree<Op, 8>(x);
    push<Op, 1>(wait, v, b);
  }
#pragma unroll
  for (int i = 0; i < 7; i++) {  // all at once, whatever digits they belong to
    x[i] = Op::identity();
    if (i < rest) x[i] = load(blocks * 8 + i);
  }
  if (blocks > 0) for_each_digit<Levels>(blocks, [&](auto k, int) { append(3 + k.value, wait[k.value][0]); });
  if (rest & 4) append(2, tree<Op, 4>(x));
  if (rest & 2) append(1, rest & 4 ? Op::combine(x[4], x[5]) : Op::combine(x[0], x[1]));
  if (rest & 1) append(0, rest & 4 ? (rest & 2 ? x[6] : x[4]) : rest & 2 ? x[2] : x[0]);
  return all;
}
template <class Op, class Load>
__device__ __forceinline__ typename Op::Value fold_in_thread(int n, Load load) {
  return fold_in_thread<Op>(n, load, [](int, typename Op::Value) {});
}

// The first segment whose work index is not below `index`.
template <class S>
__device__ __forceinline__ int64_t first_from(const Job<S>& job, int64_t index) {
  int64_t low = 0, high = job.segments.count;
  while (low < high) {
    const int64_t middle = (low + high) >> 1;
    if (job.work_index(middle) < index) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The blocks of all windows but the first; then those of the segments of all lines. lines: of job.lines, if that is less
// than 2^31.
template <class S>
__global__ void __launch_bounds__(kLineThreads, 4)
    segment_lines(Job<S> job, FastDiv lines, int64_t segments, unsigned window_blocks) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  const bool of_window = blockIdx.x < window_blocks;
  const int64_t i = int64_t(blockIdx.x - (of_window ? 0 : window_blocks)) * kLineThreads + threadIdx.x,
                all = of_window ? job.lines * (job.windows - 1) : segments;
  uint64_t number = 0;
  if (window_blocks > 0) number = launch_number(job.tile_state);
  const int64_t tile = int64_t(1) << job.log_tile;
  if (i < all) {
    const int64_t of_line = i < job.lines ? 0
                            : i >> 31     ? i / job.lines
                                          : lines.div(unsigned(i)),
                  line = i - of_line * job.lines, outer = job.outer_of(line), window = of_line + 1;
    int64_t s = of_line, n = 0;
    Piece piece{};
    if (of_window) {
      s = first_from(job, window << job.log_tile) - 1;
      if (s >= 0) piece = later_piece(job.log_tile, s, job.segments.begin(s), job.segments.end(s), window);
    } else {
      const int64_t begin = job.segments.begin(s);
      n = job.segments.end(s) - begin;
      piece = {begin, int(n < tile ? n : tile)};
    }
    const char* const p = job.layout.data + outer * job.layout.outer_bytes +
                          (line - outer * job.layout.inner) * job.layout.inner_bytes +
                          piece.begin * job.layout.length_bytes;
    uint64_t* const words = job.words(line, window);
    Value v = fold_in_thread<Op>(
        piece.n, [&](int k) { return load_one(job.source, p + k * job.layout.length_bytes, 0); },
        [&](int k, Value digit) {
          if (of_window) publish(words + k * kTaggedWords<Value>, digit, launch_tag(number));
        });
    if (of_window) {
      for (int k = 0; k <= job.log_tile; k++)
        if (!(piece.n >> k & 1)) publish(words + k * kTaggedWords<Value>, Value{}, launch_tag(number));
    } else {
      if (n > tile)
        v = fold_later_tiles_in_thread<Op>(job.words(line, (piece.begin + s) >> job.log_tile), job.log_tile, n, v,
                                           launch_tag(number));
      job.store(outer, line, s, n, v);
    }
  }
  if (window_blocks == 0) return;
  __syncthreads();
  if (threadIdx.x == 0) release(job.tile_state, gridDim.x, launch_tag(number));
}

}  // namespace torch_reductions::cuda::segment
