// A stretch of several segments: its runs are listed, a thread takes one after the other, and above them stands the tree of
// each segment.
#pragma once
#include "tile.cuh"

namespace torch_reductions::cuda {

template <class Tile>
struct RunsOfStretch {
  using Op = typename Tile::Op;
  using Value = typename Tile::Value;
  using Memory = typename Tile::Memory;
  static constexpr int R = Tile::R;

  const Tile& tile;
  const Stretch& stretch = tile.stretch;
  const int log = tile.log(), column = tile.column(), first = threadIdx.x >> log, step = kSegmentThreads >> log;

  // ---------------------------------------------------------------- the list

  // The positions of word w where runs begin, every R-th of a segment. before: where the one that goes on into it began.
  __device__ __forceinline__ static unsigned marks_of(int w, unsigned starts, int before, int length) {
    constexpr unsigned kEvery = R == 16 ? 0x00010001u : R == 8 ? 0x01010101u : 0x11111111u;
    unsigned marks = 0, from = ~0u;  // from: the positions behind the last start so far
    for (int s = before;;) {
      const unsigned of_segment = kEvery << (s & (R - 1));
      const unsigned until = starts == 0 ? 0 : ~0u << (__ffs(int(starts)) - 1);
      if (s >= 0) marks |= of_segment & from & ~until;
      if (starts == 0) break;
      s = 32 * w + __ffs(int(starts)) - 1;
      from = until, starts &= starts - 1;
    }
    const int more = length - 32 * w;
    return more >= 32 ? marks : more > 0 ? marks & ((1u << more) - 1) : 0;
  }

  // Bits where segments begin: those of the first segments that threads have, in the order of the scan, and of all others.
  // A thread asks early for the first one's.
  __device__ __forceinline__ int64_t first_start() const {
    const int64_t s = stretch.segment + threadIdx.x;
    return s < stretch.segments_end ? tile.windows.start(s) : -1;
  }
  __device__ __forceinline__ void mark(int64_t at) const {
    unsigned* const starts = tile.memory.starts[tile.n % kStretches];
    for (int64_t s = stretch.segment + threadIdx.x;;) {
      at -= stretch.begin;
      if (at >= 0 && at < stretch.length) atomicOr(&starts[at / 32], 1u << (at & 31));
      s += kSegmentThreads;
      if (s >= stretch.segments_end) break;
      at = tile.windows.start(s);
    }
    if (threadIdx.x == 0) atomicOr(&starts[0], 1u);
  }

  // Bits where runs begin, a thread a word, then a list of those: how many there are.
  __device__ __forceinline__ int list() const {
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    Memory& memory = tile.memory;
    constexpr int kWordWarps = (Memory::kWords + 31) / 32;  // whose lanes have a word each
    const bool has_word = warp < kWordWarps;
    unsigned starts = 0;
    if (tid < Memory::kWords) {
      unsigned& word = memory.starts[tile.n % kStretches][tid];
      starts = word, word = 0;
    }
    int before = -1;  // where the segment began that goes on into the word
    if (has_word) {
      int last = starts != 0 ? 32 * tid + 31 - __clz(int(starts)) : -1;  // of the starts in the words up to this one
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const int other = shuffle(last, (lane - d) & 31);
        if (lane >= d && other > last) last = other;
      }
      if (lane == 31) memory.last_start[warp] = last;
      before = shuffle(last, (lane - 1) & 31);
      if (lane == 0) before = -1;
    }
    __syncthreads();
    unsigned marks = 0;
    int r = 0;  // of the word's first run
    if (has_word) {
#pragma unroll
      for (int w = 0; w + 1 < kWordWarps; w++)
        if (w < warp && memory.last_start[w] > before) before = memory.last_start[w];
      marks = marks_of(tid, starts, before, stretch.length);
      int up_to = __popc(marks);
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const int other = shuffle(up_to, (lane - d) & 31);
        if (lane >= d) up_to += other;
      }
      if (lane == 31) memory.runs[warp] = up_to;
      r = up_to - __popc(marks);
    }
    __syncthreads();
    int runs = 0;
#pragma unroll
    for (int w = 0; w < kWordWarps; w++) {
      if (w == warp) r += runs;
      runs += memory.runs[w];
    }
    for (; marks != 0; marks &= marks - 1, r++) {
      const int bit = __ffs(int(marks)) - 1, at = 32 * tid + bit;
      const unsigned left = starts & (0xffffffffu >> (31 - bit));
      const int start = left != 0 ? 32 * tid + 31 - __clz(int(left)) : before;
      memory.run[r] = uint16_t(at), memory.number_of_run[r] = uint8_t((at - start) / R);
    }
    __syncthreads();
    return runs;
  }

  struct Run {
    int first, count, number;  // number: of the run in its segment's tile
    bool continued;            // is it of the tile that the stretch begins with, and that not the first of its segment?
  };
  __device__ __forceinline__ Run run_of(int r, int runs) const {
    const int at = tile.memory.run[r], number = tile.memory.number_of_run[r];
    const int end = r + 1 < runs ? tile.memory.run[r + 1] : stretch.length;
    return {at, end - at, number, at == number * R && stretch.tile > 0};
  }
  __device__ __forceinline__ Value& element(const Run& run, int i) const {
    return tile.elements[tile.slot(((run.first + i) << log) + column)];
  }

  // ---------------------------------------------------------------- results in the elements' places

  // A thread a run, as many at once as there are threads: those on the left are done before. A whole run's node, at first / R,
  // is the block of runs that ends with it; one behind that of the run before.
  __device__ __forceinline__ void scan() const {
    const int runs = list();
#pragma unroll 1
    for (int from = 0; from < runs; from += step) {
      const bool has_run = from + first < runs && tile.exists;
      const Run run = has_run ? run_of(from + first, runs) : Run{};
      Value x[R];
      if (run.count > 0) {  // idle warps go by
#pragma unroll
        for (int i = 0; i < R; i++) {
          x[i] = Value{};  // comes into no result
          if (i < run.count) x[i] = element(run, i);
        }
        blocks_of_run<Op, R>(x);
      }
      Value block = x[R - 1];
      Value* const node = &tile.memory.node[(run.first / R << log) + column];
      const bool whole = run.count == R;
      const int number = whole ? run.number + 1 : 0;
      if (whole) *node = block;
      for (int k = 0; __syncthreads_or(number >> k > 1); k++)
        if (number != 0 && (number & ((2 << k) - 1)) == 0) {
          block = Op::combine(node[-((1 << k) << log)], block);
          *node = block;
        }
      finish(run, x, block, node);
    }
  }

  __device__ __forceinline__ void finish(const Run& run, Value (&x)[R], Value block, const Value* node) const {
    if (run.count == 0) return;
    // The fold before the run, and the one before the largest block that ends with it.
    const int own_block = (run.number + 1) & -(run.number + 1);
    SoFar<Op> base, before_block;
    if (run.continued) before_block = base = tile.before_tile(stretch.tile);
    node -= run.number << log;  // of the segment's first run
#pragma unroll 1
    for (int rest = run.number, runs_so_far = 0; rest != 0;) {
      const int digit = 1 << (31 - __clz(rest));
      rest ^= digit, runs_so_far += digit;
      base.append(node[(runs_so_far - 1) << log]);
      if (digit > own_block) before_block = base;
    }
    before_block.append(block);
    const bool ends_tile = run.continued && run.number == step - 1;
    const Value last = ends_tile ? tile.after_tile(stretch.tile, block) : before_block.value;
    tile.finish(x, base, last, stretch.begin + run.first);
#pragma unroll
    for (int i = 0; i < R; i++)
      if (i < run.count) element(run, i) = x[i];
  }
};

}  // namespace torch_reductions::cuda
