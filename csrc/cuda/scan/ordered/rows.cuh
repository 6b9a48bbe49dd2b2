// Lines that are contiguous: a block copies a tile into shared memory, scans it there in place, and copies it out.
//
// A thread scans kVectors neighbouring vectors of 16 bytes. It takes them in an order of its own (vector j ^ swizzle at step
// j), so that the lanes of a warp, whose runs lie 128 bytes apart, meet different banks.
#pragma once
#include "../../primitives/async.cuh"
#include "carry.cuh"
#include "lines.cuh"
#include "tree.cuh"

namespace torch_reductions::cuda {

inline constexpr int kScanThreads = 128, kLogScanWarps = 2;
inline constexpr int kRowRadix = 5;

template <class Value>
inline constexpr int kVectors = sizeof(Value) <= 8 ? 8 : 4;

// The part of a line that a row of threads takes: positions [first, first + positions of the threads).
struct Part {
  int64_t first;
  int elements, results;  // of the line's that lie in it
};

// Copies between a line and the shared memory of its threads; `count` elements, of which the first one in memory stands at
// shared[at]. The threads are number q of `threads`.
template <class T>
__device__ __forceinline__ bool in_vectors(const void* global, int at, int count) {
  const int size = int(sizeof(T));
  return reinterpret_cast<uintptr_t>(global) % 16 == 0 && at * size % 16 == 0 && count * size % 16 == 0;
}
template <class T>
__device__ __forceinline__ void copy_in(T* shared, const T* global, int at, int count, int q, int threads) {
  constexpr int E = 16 / sizeof(T);
  if (in_vectors<T>(global, at, count)) {
    for (int v = q; v < count / E; v += threads) copy_async(shared + at + v * E, global + v * E);
  } else {
#pragma unroll 4
    for (int i = q; i < count; i += threads) {
      if constexpr (sizeof(T) >= 4) copy_async<sizeof(T)>(shared + at + i, global + i);
      else shared[at + i] = global[i];
    }
    // Whole vectors are read.
    const int before = at % E, behind = (E - (at + count) % E) % E;
    for (int i = q; i < before; i += threads) shared[at - before + i] = T{};
    for (int i = q; i < behind; i += threads) shared[at + count + i] = T{};
  }
}
template <class T>
__device__ __forceinline__ void copy_out(const T* shared, T* global, int at, int count, int q, int threads) {
  constexpr int E = 16 / sizeof(T);
  if (in_vectors<T>(global, at, count)) {
#pragma unroll 4
    for (int v = q; v < count / E; v += threads)
      *reinterpret_cast<uint4*>(global + v * E) = *reinterpret_cast<const uint4*>(shared + at + v * E);
  } else {
#pragma unroll 4
    for (int i = q; i < count; i += threads) global[i] = shared[at + i];
  }
}

// E values as the words of a vector, or the other way round (source.value).
template <class T, class Op, int G>
__device__ __forceinline__ uint4 packed(const Input<T, Op, G>& source, const typename Op::Value* v, bool reverse) {
  constexpr int E = 16 / sizeof(T);
  T elements[E];
#pragma unroll
  for (int i = 0; i < E; i++) elements[i] = stored(source, reverse ? v[E - 1 - i] : v[i]);
  uint4 words;
  memcpy(&words, elements, 16);
  return words;
}

// A line of several tiles: a block a tile. Shorter ones: 2^log_threads threads a line, several lines a block.
template <class S>
__global__ void __launch_bounds__(kScanThreads, 1)
    scan_rows(S source, Lines lines, int64_t count, int log_threads, Carry<kRowRadix> carry) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using T = typename S::Element;
  constexpr int E = S::E, Vectors = kVectors<Value>, Run = Vectors * E, Warps = 1 << kLogScanWarps;
  extern __shared__ uint4 memory[];
  __shared__ Value warp_total[Warps], kept[kRowRadix * kMaxLevels];
  __shared__ unsigned drawn[2];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int threads = 1 << log_threads, q = threadIdx.x & (threads - 1), row = threadIdx.x >> log_threads;
  Ticket ticket{blockIdx.x, 0};
  if (carry.tiles > 1) {
    if (threadIdx.x == 0) {
      ticket = draw_ticket(carry.board);
      drawn[0] = ticket.number, drawn[1] = ticket.tag;
    }
    __syncthreads();
    ticket = {drawn[0], drawn[1]};
  }
  const unsigned group = ticket.number / carry.tiles, tile = ticket.number - group * carry.tiles;
  const int64_t line = int64_t(group) * (blockDim.x >> log_threads) + row;
  const bool exists = line < count;
  const int all = Run << log_threads;  // positions of a line's threads
  const auto within = [&](int64_t n, int64_t first) {
    return n - first < 0 ? 0 : n - first < all ? int(n - first) : all;
  };
  const int64_t first = int64_t(tile) * all;
  const Part part{first, exists ? within(lines.length, first) : 0, exists ? within(lines.results, first) : 0};
  T* const shared = reinterpret_cast<T*>(memory) + row * all;
  // In memory a reverse scan's part lies at the end of its space, the last position first.
  const bool reverse = lines.reverse;

  if (part.elements > 0) {
    const T* const from = reinterpret_cast<const T*>(lines.input + line * lines.outer_bytes) +
                          (reverse ? lines.length - first - part.elements : first);
    copy_in(shared, from, reverse ? all - part.elements : 0, part.elements, q, threads);
  }
  commit_copies();
  await_copies<0>();
  __syncthreads();

  const int swizzle = (lane / (8 / Vectors)) & (Vectors - 1);
  const auto vector_at = [&](int j) -> uint4* {  // of step j, in shared memory
    const int v = q * Vectors + (j ^ swizzle);
    return reinterpret_cast<uint4*>(shared) + (reverse ? (all / E - 1 - v) : v);
  };
  const auto load = [&](Value(&x)[E], int j) {  // false: beyond the end
    const int position = q * Run + (j ^ swizzle) * E, left = part.elements - position;
    if (left <= 0) {
#pragma unroll
      for (int i = 0; i < E; i++) x[i] = Op::identity();
      return;
    }
    uint32_t words[4];
    memcpy(words, vector_at(j), 16);
#pragma unroll
    for (int i = 0; i < E; i++) {
      const Value forward = source.value(words, i, first + position + i);
      const Value backward = source.value(words, E - 1 - i, first + position + i);
      x[i] = i < left ? (reverse ? backward : forward) : Op::identity();
    }
  };

  // Up: vectors, threads, warps. keep[k]: the block of 2^k threads left of this one's.
  Value node[2 * Vectors];
#pragma unroll
  for (int j = 0; j < Vectors; j++) {
    Value x[E];
    load(x, j);
    node[Vectors + j] = tree<Op, E>(x);
  }
  tree_up<Op, Vectors>(node, swizzle);
  Value total = node[1], keep[5];
#pragma unroll
  for (int k = 0; k < 5; k++) {
    const Value other = shuffle_xor(total, 1 << k);
    const bool right = lane >> k & 1, same_line = k < log_threads;
    keep[k] = same_line && right ? other : Op::identity();
    if (same_line) total = join<Op>(right, total, other);
  }
  if (lane == 0) warp_total[warp] = total;
  __syncthreads();
  const int log_warps = log_threads > 5 ? log_threads - 5 : 0, first_warp = warp >> log_warps << log_warps;
  const auto block_of_warps = [&](int from, int log_count) {
    Value t = warp_total[from];
    if (log_count == 1) t = Op::combine(t, warp_total[from + 1]);
    if (log_count >= 2) {
      Value v[Warps];
#pragma unroll
      for (int i = 0; i < Warps; i++) v[i] = i < 1 << log_count ? warp_total[from + i] : Op::identity();
      t = tree<Op, Warps>(v);
    }
    return t;
  };
  const Value own = block_of_warps(first_warp, log_warps);  // of the line's threads

  // Look-back: a warp a level, a lane a total.
  Value before = Op::identity(), after = own;
  if (carry.tiles > 1) {
    const auto say = [&](int level, unsigned index, Value v) {
      if (level < carry.levels && index < carry.tiles >> (kRowRadix * level))
        publish(carry.template word<Value>(level, index, group), v, ticket.tag);
    };
    if (threadIdx.x == 0) say(0, tile, own);
    for (int level = warp; level < carry.levels; level += blockDim.x >> 5) {
      const unsigned at = tile >> (kRowRadix * level);
      const int d = at & 31;
      Value v[1] = {Op::identity()};
      if (d > 0) {
        const unsigned index = at - d + (lane < d ? lane : 0);
        const uint64_t* const word = carry.template word<Value>(level, index, group);
        for (int asked = 0;; pause(++asked)) {
          const bool all_there = arrived(v, [&](int) { return word; }, Awaited{ticket.tag, ~0u});
          if (__all_sync(kFullWarp, all_there)) break;
        }
      }
      if (lane >= d) v[0] = level == 0 && lane == d ? own : Op::identity();
      Value digit[kRowRadix];
      const Value all_of_them = lane_digits<Op, kRowRadix>(v[0], d, digit, lane);
      // The last of 32 tiles says their total at once: what waited for the levels above would be a chain.
      if (level == 0 && d == 31 && lane == 0) say(1, tile >> kRowRadix, all_of_them);
      if (lane == d)
#pragma unroll
        for (int k = 0; k < kRowRadix; k++) kept[kRowRadix * level + k] = digit[k];
    }
    __syncthreads();
    const int bits = kRowRadix * carry.levels;
    before = fold_kept<Op>(kept, bits, 1);
    const bool speaks = threadIdx.x == 0 && (tile & 31) == 31;
    if (warp == (blockDim.x >> 5) - 1 || speaks)
      after = fold_next<Op>(kept, bits, 1, tile, own, [&](int k, Value v) {
        if (speaks && k > kRowRadix && k % kRowRadix == 0) say(k / kRowRadix, tile >> k, v);
      });
  }

  // Down: the folds before this thread's run and up to its last element, then the vectors and their elements.
  const auto before_warp = [&](int w) {
    Value v = before;
#pragma unroll
    for (int k = kLogScanWarps - 1; k >= 0; k--)
      if (k < log_warps && (w >> k & 1)) v = Op::combine(v, block_of_warps(w >> (k + 1) << (k + 1), k));
    return v;
  };
  Value lo[2 * Vectors], hi[2 * Vectors];
  lo[1] = before_warp(warp);
  Value last = (warp + 1) & ((1 << log_warps) - 1) ? before_warp(warp + 1) : after;
#pragma unroll
  for (int k = 4; k >= 0; k--) lo[1] = Op::combine(lo[1], keep[k]);
  const Value next = shuffle(lo[1], (lane + 1) & 31);
  if (lane < 31 && q + 1 < threads) last = next;
  if (log_threads < 5 && q + 1 == threads) last = total;
  hi[1] = last;
  tree_down<Op, Vectors>(node, lo, hi, swizzle);

  int64_t* const indices = IsIndexed<Value>::value && exists ? lines.indices + line * lines.results : nullptr;
#pragma unroll
  for (int j = 0; j < Vectors; j++) {
    const int position = q * Run + (j ^ swizzle) * E;
    if (position >= part.results) continue;
    Value below[2 * E], from[2 * E], to[2 * E], y[E];
    Value x[E];
    load(x, j);
#pragma unroll
    for (int i = 0; i < E; i++) below[E + i] = x[i];
    tree_up<Op, E>(below);
    from[1] = lo[Vectors + j], to[1] = hi[Vectors + j];
    tree_down<Op, E>(below, from, to);
#pragma unroll
    for (int i = 0; i < E; i++) y[i] = lines.exclusive ? from[E + i] : to[E + i];
    if (lines.exclusive && first + position == 0) y[0] = fold_of_nothing(source);
    *vector_at(j) = packed(source, y, reverse);
    if constexpr (IsIndexed<Value>::value)
#pragma unroll
      for (int i = 0; i < E; i++)
        if (position + i < part.results)
          indices[lines.result(first + position + i)] = from_the_front(lines, y[i].index);
  }
  __syncthreads();
  if (part.results > 0) {
    T* const to = reinterpret_cast<T*>(lines.output) + line * lines.results +
                  (reverse ? lines.results - first - part.results : first);
    copy_out(shared, to, reverse ? all - part.results : 0, part.results, q, threads);
  }
}

}  // namespace torch_reductions::cuda
