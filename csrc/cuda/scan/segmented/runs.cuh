// A stretch of several segments: its runs are listed, a thread takes one after the other, and above them stands the tree of
// each segment, of groups of runs by shuffles.
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
  const int group = 32 >> log;  // runs that a warp has of a line

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

  // ---------------------------------------------------------------- results in the elements' places

  struct Run {
    int first, count, number;  // number: of the run in its segment's tile
    bool continued;            // is it of the tile that the stretch begins with, and that not the first of its segment?
    __device__ __forceinline__ bool whole() const { return count == R; }
  };
  // Of no elements where there is no run r.
  __device__ __forceinline__ Run run_of(int r, int runs) const {
    if (r < 0 || r >= runs || !tile.exists) return {};
    const int at = tile.memory.run[r], number = tile.memory.number_of_run[r];
    const int end = r + 1 < runs ? tile.memory.run[r + 1] : stretch.length;
    return {at, end - at, number, at == number * R && stretch.tile > 0};
  }
  // body(i, place) for all places of a run; one is free in between.
  template <class Body>
  __device__ __forceinline__ void each_place(const Run& run, Body body) const {
    Value* const from = &tile.elements[((run.first + run.first / R) << log) + column];
    const int behind = R - run.first % R;
#pragma unroll
    for (int i = 0; i < R; i++) body(i, from[(i < behind ? i : i + 1) << log]);
  }

  // The totals of whole runs, and of groups of them: as many as a warp has of a line. Those of a segment follow one another.
  __device__ __forceinline__ Value& total_of(const Run& run) const {
    return tile.memory.node[(run.first / R << log) + column];
  }
  __device__ __forceinline__ Value& total_of_group(const Run& run) const {
    return tile.memory.group[run.first / (R * group)][column];
  }

  // Two runs of a lane: its own, r, and the one that stands a warp's runs before it, so that a warp sees all runs of the
  // groups that its own ones are of. value: the run's total; the block of its group that ends with it; its fold.
  struct Pair {
    Run run;
    int early_number;
    Value early, value;
  };
  __device__ __forceinline__ Pair pair_of(int r, int runs) const {
    Pair p{run_of(r, runs), 0, {}, {}};
    const Run early = run_of(r - group, runs);
    p.early_number = early.number;
    if (early.whole()) p.early = total_of(early);
    if (p.run.whole()) p.value = total_of(p.run);
    return p;
  }
  // The values of the runs 2^k before.
  struct Left {
    Value early, value;
    bool inside;  // is there one before the early run?
  };
  __device__ __forceinline__ Left left_of(const Pair& p, int k) const {
    const int lane = threadIdx.x & 31, from = lane - (1 << (log + k));
    const Value early = shuffle(p.early, from & 31), value = shuffle(p.value, from & 31);
    return {early, from >= 0 ? value : early, from >= 0};
  }
  __device__ __forceinline__ void up(Pair& p) const {
#pragma unroll
    for (int k = 0; k < 5; k++)
      if (log + k < 5) {  // uniform
        const Left left = left_of(p, k);
        const auto ends = [&](int number) { return ((number + 1) & ((2 << k) - 1)) == 0; };
        if (ends(p.run.number)) p.value = Op::combine(left.value, p.value);
        if (left.inside && ends(p.early_number)) p.early = Op::combine(left.early, p.early);
      }
  }
  // before: what stands before the group of the lane's own run.
  __device__ __forceinline__ void down(Pair& p, const SoFar<Op>& before) const {
    const int number = p.run.number & (group - 1), early_number = p.early_number & (group - 1);
    if (__any_sync(kFullWarp, before.there)) {
      // Of early runs those matter that are of the first own one's group.
      const bool there = shuffle(int(before.there), column) != 0;
      const Value value = shuffle(before.value, column);
      const auto begins = [](int number) { return (number & (number + 1)) == 0; };
      if (before.there && begins(number)) p.value = Op::combine(before.value, p.value);
      if (there && begins(early_number)) p.early = Op::combine(value, p.early);
    }
#pragma unroll
    for (int k = 3; k >= 0; k--)
      if (log + k < 4) {  // uniform
        const Left left = left_of(p, k);
        const auto follows = [&](int number) {
          return ((number + 1) & ((2 << k) - 1)) == 1 << k && number + 1 > 1 << k;
        };
        if (follows(number)) p.value = Op::combine(left.value, p.value);
        if (left.inside && follows(early_number)) p.early = Op::combine(left.early, p.early);
      }
  }

  // What stands before group q of the run's segment.
  __device__ __forceinline__ SoFar<Op> before_group(const Run& run, int q) const {
    SoFar<Op> v;
    if (run.continued) v = tile.before_tile(stretch.tile);
    if (q == 0) return v;
    const Value* const first_total = &tile.memory.group[(run.first / R - run.number + group - 1) / group][column];
    int so_far = 0;
#pragma unroll 1
    for (int k = 3; k >= 0; k--)
      if (q >> k & 1) {
        v.append(block_of<Op>([&](int i) { return first_total[(so_far + i) * Memory::kLines]; }, k));
        so_far += 1 << k;
      }
    return v;
  }

  __device__ __forceinline__ void scan() const {
    const int runs = list(), of_warp = first & -group;
    bool groups = false;
#pragma unroll 1
    for (int r = first; r < runs; r += step) {
      const Run run = run_of(r, runs);
      if (!run.whole()) continue;
      Value x[R];
      each_place(run, [&](int i, const Value& place) { x[i] = place; });
      total_of(run) = tree<Op, R>(x);
      groups = groups || run.number + 1 >= group;
    }
    if (__syncthreads_or(groups)) {
#pragma unroll 1
      for (int from = 0; from + of_warp < runs; from += step) {
        Pair p = pair_of(from + first, runs);
        up(p);
        if (p.run.whole() && (p.run.number + 1) % group == 0) total_of_group(p.run) = p.value;
      }
      __syncthreads();
    }
#pragma unroll 1
    for (int from = 0; from + of_warp < runs; from += step) {
      Pair p = pair_of(from + first, runs);
      const Run& run = p.run;
      const int q = run.number / group, number = run.number & (group - 1);
      SoFar<Op> before;
      if (q > 0 || run.continued) before = before_group(run, q);
      up(p);
      down(p, before);
      SoFar<Op> base = before;
      const Value so_far = left_of(p, 0).value;
      if (number > 0) base.value = so_far, base.there = true;
      if (run.whole() && number == group - 1) p.value = before_group(run, q + 1).value;
      if (run.count > 0) finish(run, base, p.value);
    }
  }

  __device__ __forceinline__ void finish(const Run& run, const SoFar<Op>& base, Value last) const {
    Value x[R];
    each_place(run, [&](int i, const Value& place) {
      x[i] = Value{};  // comes into no result
      if (i < run.count) x[i] = place;
    });
    blocks_of_run<Op, R>(x);
    tile.finish(x, base, last, stretch.begin + run.first);
    each_place(run, [&](int i, Value& place) {
      if (i < run.count) place = x[i];
    });
  }
};

}  // namespace torch_reductions::cuda
