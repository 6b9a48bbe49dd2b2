// Packed segments of many short lines that lie across memory: a thread scans a line, one segment after the other, all
// of it in registers. Neighbouring threads have neighbouring lines.
//
// Local:   scan_short_segments (24 bytes): of 32 floats that are dear to combine, so that four blocks fit
#pragma once
#include "../ordered/short_columns.cuh"
#include "windows.cuh"

namespace torch_reductions::cuda::scan {

inline constexpr int kLogShortLine = 5, kMostShortLine = 1 << kLogShortLine;
inline constexpr int kMostShortSegments = 256;  // which every warp reads

// The folds of a segment up to each of its elements, one after the other: as a binary counter counts them. block[k] is
// the block of 2^k elements that waits for the one on its right; up_to[k] the fold of all elements before the open
// block of 2^k.
template <class Op>
struct SegmentFolds {
  using Value = typename Op::Value;
  Value block[kLogShortLine], up_to[kLogShortLine];
  int count = 0;  // the same in all threads

  __device__ __forceinline__ Value append(Value v) {
    if constexpr (kExtreme<Op>) return up_to[0] = count++ == 0 ? v : Op::combine(up_to[0], v);  // as they come
    const int ones = __ffs(~count) - 1;
#pragma unroll
    for (int k = 0; k < kLogShortLine; k++)
      if (k < ones) v = Op::combine(block[k], v);
#pragma unroll
    for (int k = 0; k < kLogShortLine; k++)
      if (k == ones) block[k] = v;
    count++;
    if (count != 1 << ones) {
#pragma unroll
      for (int k = 0; k < kLogShortLine; k++)
        if (k == ones) v = Op::combine(up_to[k], v);
    }
#pragma unroll
    for (int k = 0; k < kLogShortLine; k++)
      if (k <= ones) up_to[k] = v;
    return v;
  }
};

// Bit i: does a segment begin at position i? By a whole warp.
__device__ __forceinline__ uint32_t begins_of_segments(const Windows& windows, int length) {
  uint32_t begins = 0;
  for (int s = 1 + int(threadIdx.x) % 32; s < windows.segments.count; s += 32) {
    const int64_t at = windows.start(s);
    if (at > 0 && at < length) begins |= 1u << at;
  }
#pragma unroll
  for (int d = 1; d < 32; d *= 2) begins |= uint32_t(shuffle_xor(int(begins), d));
  return begins;
}

// Blocks of a multiprocessor: where to combine is dear, ptxas would rather have several in flight than warps.
template <class Op, class Value = typename Op::Value>
inline constexpr int kPackedBlocks = !kIsDear<Op>         ? 0
                                     : sizeof(Value) == 4 ? 4
                                                          : 2;

template <class S>
__global__ void __launch_bounds__(kShortThreads, kPackedBlocks<typename S::Op>)
    scan_short_segments(const __grid_constant__ S source, const __grid_constant__ Lines lines,
                        const __grid_constant__ Windows windows, const __grid_constant__ FastDiv inner, int64_t count) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using Result = typename ResultOf<S>::type;
  const int length = int(lines.length);
  const uint32_t begins = begins_of_segments(windows, length);
  const int64_t line = int64_t(blockIdx.x) * kShortThreads + threadIdx.x;
  if (line >= count) return;
  const int64_t o = inner.quotient(line, lines.inner), i_of_outer = line - o * lines.inner, first = lines.element(0);

  const char* from = lines.input + o * lines.outer_bytes + i_of_outer * lines.inner_bytes + first * lines.length_bytes;
  Value x[kMostShortLine];
  load_elements(source, x, from, lines.reverse ? -lines.length_bytes : lines.length_bytes, length, 0);
  hide_elements(source, lines, x, o, i_of_outer, 0, length);

  const int64_t at = (o * lines.length + first) * lines.inner + i_of_outer,
                row = lines.reverse ? -lines.inner : lines.inner;
  Result* to = reinterpret_cast<Result*>(lines.output) + at;
  int64_t* index = IsIndexed<Value>::value ? lines.indices + at : nullptr;
  SegmentFolds<Op> folds;
  Value before = empty_value(source);
#pragma unroll
  for (int i = 0; i < kMostShortLine; i++) {
    if (i >= length) break;
    if (begins >> i & 1) folds.count = 0, before = empty_value(source);
    const Value fold = folds.append(x[i]), value = lines.exclusive ? before : fold;
    before = fold;
    *to = result_of(source, value);
    to = opaque(to + row);
    if constexpr (IsIndexed<Value>::value) {
      *index = from_the_front(lines, value.index);
      index = opaque(index + row);
    }
  }
}

}  // namespace torch_reductions::cuda::scan
