// Any layout: a thread scans a run of neighbouring elements of one line in registers; lanes are neighbouring lines.
#pragma once
#include "carry.cuh"
#include "lines.cuh"

namespace torch_reductions::cuda {

inline constexpr int kColumnThreads = 256, kLogColumnWarps = 3;
inline constexpr int kColumnRadix = 3;

// The elements of a run: as many values as registers hold.
template <class Value>
inline constexpr int kRun = sizeof(Value) <= 4   ? 32
                            : sizeof(Value) == 8 ? 16
                                                 : 8;

// Down a line: x[i] becomes the fold of all up to element i, given those before the first one and up to the last one.
// Each x[i] first becomes the block that ends at i, as in a Fenwick tree.
template <class Op, int N>
__device__ __forceinline__ void blocks_of_run(typename Op::Value (&x)[N]) {
#pragma unroll
  for (int half = 1; half < N; half *= 2)
#pragma unroll
    for (int i = 2 * half - 1; i < N; i += 2 * half) x[i] = Op::combine(x[i - half], x[i]);
}
template <class Op, int N>
__device__ __forceinline__ void folds_of_run(typename Op::Value (&x)[N], typename Op::Value before,
                                             typename Op::Value last) {
#pragma unroll
  for (int i = 0; i + 1 < N; i++) {
    const int start = i + 1 - ((i + 1) & -(i + 1));  // of the block that ends at i
    x[i] = Op::combine(start == 0 ? before : x[start == 0 ? 0 : start - 1], x[i]);
  }
  x[N - 1] = last;
}

// A block takes 2^log_lines lines and the runs of its threads, one behind the other: a tile.
template <class S>
__global__ void __launch_bounds__(kColumnThreads, sizeof(typename S::Value) == 4 ? 3 : 1)
    scan_columns(S source, Lines lines, int64_t count, int log_lines, Carry<kColumnRadix> carry) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int Run = kRun<Value>, Warps = 1 << kLogColumnWarps;
  __shared__ Value warp_total[Warps][32], kept[kColumnRadix * kMaxLevels][32];
  __shared__ unsigned drawn[2];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  Ticket ticket{blockIdx.x, 0};
  if (carry.tiles > 1) {
    if (threadIdx.x == 0) {
      ticket = draw_ticket(carry.board);
      drawn[0] = ticket.number, drawn[1] = ticket.tag;
    }
    __syncthreads();
    ticket = {drawn[0], drawn[1]};
  }
  const unsigned strips = unsigned((count + (int64_t(1) << log_lines) - 1) >> log_lines);
  const unsigned tile = ticket.number / strips, strip = ticket.number - tile * strips;  // strips side by side in time
  const int column = lane & ((1 << log_lines) - 1), run = threadIdx.x >> log_lines;
  const int64_t line = (int64_t(strip) << log_lines) + column;
  const bool exists = line < count;
  const int64_t start = (int64_t(tile) * (kColumnThreads >> log_lines) + run) * Run;
  const int64_t outer = exists ? line / lines.inner : 0, inner = exists ? line - outer * lines.inner : 0;

  Value x[Run];
  {
    const char* const from = lines.input + outer * lines.outer_bytes + inner * lines.inner_bytes;
    const int64_t left = exists ? lines.length - start : 0;
    const int64_t step = lines.reverse ? -lines.length_bytes : lines.length_bytes;
    const char* const first = from + (lines.reverse ? lines.length - 1 - start : start) * lines.length_bytes;
#pragma unroll
    for (int i = 0; i < Run; i++) x[i] = i < left ? load_one(source, first + i * step, start + i) : Op::identity();
  }
  blocks_of_run<Op, Run>(x);

  // Up: the runs of a line that lie in one warp, then the warps. keep[k]: the block of 2^k runs left of this one's.
  Value total = x[Run - 1], keep[5];
#pragma unroll
  for (int k = 0; k < 5; k++) {
    keep[k] = Op::identity();
    if (log_lines + k < 5) {  // uniform
      const int bit = log_lines + k;
      const Value other = shuffle_xor(total, 1 << bit);
      const bool right = lane >> bit & 1;
      if (right) keep[k] = other;
      total = join<Op>(right, total, other);
    }
  }
  if (lane < 1 << log_lines) warp_total[warp][lane] = total;
  __syncthreads();
  const auto block_of_warps = [&](int first, int log_count) {
    Value v[Warps];
#pragma unroll
    for (int i = 0; i < Warps; i++) v[i] = i < 1 << log_count ? warp_total[first + i][column] : Op::identity();
    Value t = v[0];
    if (log_count == 1) t = Op::combine(v[0], v[1]);
    if (log_count == 2) t = tree<Op, 4>(v);
    if (log_count == 3) t = tree<Op, 8>(v);
    return t;
  };

  // Look-back: a warp a level, a lane a line.
  Value before = Op::identity(), own = Op::identity();
  const int bits = kColumnRadix * carry.levels;
  if (carry.tiles > 1) {
    const bool speaks = exists && lane < 1 << log_lines;
    own = block_of_warps(0, kLogColumnWarps);
    const auto say = [&](int level, unsigned index, Value v) {
      if (level < carry.levels && index < carry.tiles >> (kColumnRadix * level))
        publish(carry.template word<Value>(level, index, unsigned(line)), v, ticket.tag);
    };
    if (warp == 0 && speaks) say(0, tile, own);
    for (int level = warp; level < carry.levels; level += Warps) {
      const unsigned at = tile >> (kColumnRadix * level);
      const int d = at & 7;
      Value got[8];
#pragma unroll
      for (Value& v : got) v = Op::identity();
      if (d > 0 && speaks) {  // of totals that do not exist, or not yet, the first one again
        const uint64_t* const words = carry.template word<Value>(level, at - d, unsigned(line));
        const int64_t step = int64_t(carry.lines) * kTaggedWords<Value>;
        for (int asked = 0;
             !arrived(got, [&](int i) { return words + (i < d ? i : 0) * step; }, Awaited{ticket.tag, ~0u});)
          pause(++asked);
      }
      if (lane < 1 << log_lines) {
        const Value two = Op::combine(got[0], got[1]), four = Op::combine(two, Op::combine(got[2], got[3]));
        const Value upper = Op::combine(got[4], got[5]);
        Value* const to = &kept[kColumnRadix * level][lane];
        to[2 * 32] = d & 4 ? four : Op::identity();
        to[1 * 32] = d & 2 ? (d & 4 ? upper : two) : Op::identity();
        // The last of 8 tiles says their total at once: what waited for the levels above would be a chain.
        if (level == 0 && d == 7 && speaks)
          say(1, tile >> kColumnRadix, Op::combine(four, Op::combine(upper, Op::combine(got[6], own))));
        to[0] = d & 1 ? (d & 4 ? (d & 2 ? got[6] : got[4]) : (d & 2 ? got[2] : got[0])) : Op::identity();
      }
    }
    __syncthreads();
    before = fold_kept<Op>(&kept[0][column], bits, 32);
    if (warp == 0 && speaks && (tile & 7) == 7)
      fold_next<Op>(&kept[0][column], bits, 32, tile, own, [&](int k, Value v) {
        if (k > kColumnRadix && k % kColumnRadix == 0) say(k / kColumnRadix, tile >> k, v);
      });
  }

  // Down: the fold before this thread's warp and after it, then before its run and after it.
  const auto before_warp = [&](int w) {
    Value v = before;
#pragma unroll
    for (int k = kLogColumnWarps - 1; k >= 0; k--)
      if (w >> k & 1) v = Op::combine(v, block_of_warps((w >> (k + 1)) << (k + 1), k));
    return v;
  };
  Value base = before_warp(warp);
  Value last;
  if (warp + 1 < Warps) last = before_warp(warp + 1);
  else if (carry.tiles > 1) last = fold_next<Op>(&kept[0][column], bits, 32, tile, own, [](int, Value) {});
  else last = block_of_warps(0, kLogColumnWarps);
#pragma unroll
  for (int k = 4; k >= 0; k--) base = Op::combine(base, keep[k]);
  if (log_lines < 5) {
    const Value next = shuffle(base, (lane + (1 << log_lines)) & 31);
    if (lane + (1 << log_lines) < 32) last = next;
  }
  folds_of_run<Op, Run>(x, base, last);

  if (!exists) return;
  const int64_t left = lines.results - start, step = lines.reverse ? -lines.inner : lines.inner;
  const int64_t to = (outer * lines.results + lines.result(start)) * lines.inner + inner;
  using T = typename S::Element;
#pragma unroll
  for (int i = 0; i < Run; i++) {
    Value y = x[i];
    if (lines.exclusive) y = i == 0 ? (start == 0 ? fold_of_nothing(source) : base) : x[i == 0 ? 0 : i - 1];
    if (i < left) {
      reinterpret_cast<T*>(lines.output)[to + i * step] = stored(source, y);
      if constexpr (IsIndexed<Value>::value) lines.indices[to + i * step] = from_the_front(lines, y.index);
    }
  }
}

}  // namespace torch_reductions::cuda
