// A stretch with several segments. Each segment is divided into runs from its own first element, one run per thread at
// a time; warps combine runs into groups by shuffles, and groups into the segment's tree.
#pragma once
#include "tile.cuh"

namespace torch_reductions::cuda::scan {

template <class Tile>
struct RunsOfStretch {
  using Op = typename Tile::Op;
  using Value = typename Tile::Value;
  using Memory = typename Tile::Memory;
  static constexpr int R = Tile::R;

  const Tile& tile;
  const Stretch& stretch = tile.stretch;
  const int log_lines = tile.log_lines(), column = tile.column(), first = threadIdx.x >> log_lines,
            step = kSegmentThreads<Op> >> log_lines;
  const int log_group = 5 - log_lines, group = 1 << log_group;  // runs that a warp has of a line

  // ---------------------------------------------------------------- the segments, one per thread at a time

  // The first one continues into the stretch; it may have no elements here.
  __device__ __forceinline__ int64_t segments() const { return stretch.segments_end - stretch.segment + 1; }
  // Where segment s of the stretch ends. The last one ends with it, whatever the offsets are.
  __device__ __forceinline__ int end_of(int64_t s) const {
    if (s + 1 >= segments()) return stretch.length;
    const int64_t end = tile.windows.start(stretch.segment + s) - stretch.begin;
    return end < 0 ? 0 : end < stretch.length ? int(end) : stretch.length;
  }
  // Puts the ends in order, should they fall, and counts the runs before each segment. Returns how many runs there are
  // in all. carry: where the segments before end, and then these.
  __device__ __forceinline__ int list(int end, int64_t count, int& carry) const {
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    Memory& memory = tile.memory;
    if (32 * warp < count)
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const int other = shuffle(end, (lane - d) & 31);
        if (lane >= d && other > end) end = other;
      }
    if (lane == 31) memory.end_of_warp[warp] = end;
    __syncthreads();
    int before = carry;
#pragma unroll
    for (int w = 0; w < Memory::kWarps; w++) {
      const int other = memory.end_of_warp[w];
      if (w < warp && other > before) before = other;
      if (other > carry) carry = other;
    }
    int runs = 0;
    if (32 * warp < count) {
      if (before > end) end = before;
      const int left = shuffle(end, (lane - 1) & 31), begin = lane > 0 ? left : before, own = (end - begin + R - 1) / R;
      runs = own;
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const int other = shuffle(runs, (lane - d) & 31);
        if (lane >= d) runs += other;
      }
      memory.segment[tid] = {uint16_t(begin), uint16_t(end)};
      memory.first_run[tid] = runs - own;
    }
    if (lane == 31) memory.runs_of_warp[warp] = runs;
    __syncthreads();
    int all = 0, up_to = 0;
#pragma unroll
    for (int w = 0; w < Memory::kWarps; w++) {
      if (w == warp) up_to = all;
      all += memory.runs_of_warp[w];
    }
    if (32 * warp < count) memory.first_run[tid] += up_to;
    else memory.first_run[tid] = all;
    __syncthreads();
    return all;
  }

  struct Run {
    unsigned first, number;  // number: of the run in its segment's tile
    int count;
    // true if the run belongs to the stretch's first tile and that tile is not its segment's first
    bool continued;
    __device__ __forceinline__ bool whole() const { return count == R; }
  };
  // Where there is no run r it has no elements, and stands behind all others.
  __device__ __forceinline__ Run run_of(int r, int runs, bool from_first) const {
    if (r >= runs || !tile.exists) return {unsigned(stretch.length), 0, 0, false};
    const Memory& memory = tile.memory;
    int s = 0;  // the last segment before which there are at most r runs
#pragma unroll
    for (int d = kSegmentThreads<Op> / 2; d > 0; d /= 2)
      if (memory.first_run[s + d] <= r) s += d;
    const auto segment = memory.segment[s];
    const unsigned number = r - memory.first_run[s], at = segment.begin + number * R;
    const int left = segment.end - int(at);
    return {at, number, left < R ? left : R, from_first && s == 0 && stretch.tile > 0};
  }

  // ---------------------------------------------------------------- results in place of the elements

  // body(i, slot) for all slots of a run; one is free in between.
  template <class Body>
  __device__ __forceinline__ void for_each_slot(const Run& run, Body body) const {
    const int from = (int(run.first + run.first / R) << log_lines) + column, behind = opaque(from + (1 << log_lines));
    const int of_block = R - int(run.first % R);
#pragma unroll
    for (int i = 0; i < R; i++) body(i, tile.elements[(i < of_block ? from : behind) + (i << log_lines)]);
  }

  // The totals of whole runs, and of groups of them: as many as a warp has of a line. Those of a segment follow one
  // another.
  __device__ __forceinline__ Value& total_of_run(int slot) const {
    return tile.memory.node[(slot << log_lines) + column];
  }
  __device__ __forceinline__ Value& total_of_group(int slot) const { return tile.memory.group[slot][column]; }

  // Each lane holds its own run and the run one warp-width earlier, so that the warp sees every run of each group it
  // takes part in. value: the run's total; then the block of its group that ends with it; then its fold.
  struct TwoRuns {
    int number, previous_number;  // below 0: it is of no group of the warp's
    Value value, previous;
  };
  __device__ __forceinline__ TwoRuns two_runs(const Run& run) const {
    const int back = group - ((threadIdx.x & 31) >> log_lines);
    TwoRuns p{int(run.number), int(shuffle(run.number, column)) - back, {}, {}};
    const int slot = int(shuffle(run.first / R, column)) - back;
    if (p.previous_number >= 0) p.previous = total_of_run(slot);
    if (run.whole()) p.value = total_of_run(run.first / R);
    return p;
  }
  // The values of the runs 2^k before.
  struct Left {
    Value previous, value;
    bool inside;  // is there one before the previous run?
  };
  __device__ __forceinline__ Left left_of(const TwoRuns& p, int k) const {
    const int lane = threadIdx.x & 31, from = lane - (1 << (log_lines + k));
    const Value previous = shuffle(p.previous, from & 31), value = shuffle(p.value, from & 31);
    return {previous, from >= 0 ? value : previous, from >= 0};
  }
  __device__ __forceinline__ void up(TwoRuns& p) const {
#pragma unroll
    for (int k = 0; k < 5; k++)
      if (log_lines + k < 5) {  // uniform
        const Left left = left_of(p, k);
        const auto ends = [&](int number) { return ((number + 1) & ((2 << k) - 1)) == 0; };
        if (ends(p.number)) p.value = Op::combine(left.value, p.value);
        if (left.inside && ends(p.previous_number)) p.previous = Op::combine(left.previous, p.previous);
      }
  }
  // before: what stands before the group of the lane's own run.
  __device__ __forceinline__ void down(TwoRuns& p, const SoFar<Op>& before) const {
    const int number = p.number & (group - 1), previous_number = p.previous_number & (group - 1);
    if (__any_sync(kFullWarp, before.there)) {
      // Earlier runs matter only if they are in the same group as the warp's first own run.
      const bool there = shuffle(int(before.there), column) != 0;
      const Value value = shuffle(before.value, column);
      const auto begins = [](int number) { return (number & (number + 1)) == 0; };
      if (before.there && begins(number)) p.value = Op::combine(before.value, p.value);
      if (there && begins(previous_number)) p.previous = Op::combine(value, p.previous);
    }
#pragma unroll
    for (int k = 3; k >= 0; k--)
      if (log_lines + k < 4) {  // uniform
        const Left left = left_of(p, k);
        const auto follows = [&](int number) {
          return ((number + 1) & ((2 << k) - 1)) == 1 << k && number + 1 > 1 << k;
        };
        if (follows(number)) p.value = Op::combine(left.value, p.value);
        if (left.inside && follows(previous_number)) p.previous = Op::combine(left.previous, p.previous);
      }
  }

  // What stands before group q of the run's segment.
  __device__ __forceinline__ SoFar<Op> before_group(const Run& run, int q) const {
    SoFar<Op> v;
    if (run.continued) v = tile.before_tile(stretch.tile);
    if (q == 0) return v;
    const Value* const first_total = &total_of_group(int(run.first / R - run.number + group - 1) >> log_group);
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
    const int64_t all = segments();
    int carry = 0, end = tile.end();
#pragma unroll 1
    for (int64_t s = 0; s < all; s += kSegmentThreads<Op>) {
      if (s > 0) end = s + threadIdx.x < all ? end_of(s + threadIdx.x) : 0;
      const int runs = list(end, all - s, carry);
#pragma unroll 1
      for (int from = 0; from < runs; from += step) scan_runs(from, runs, s == 0);
      if (s + kSegmentThreads<Op> < all) __syncthreads();  // the next ones take the places of these
    }
  }

  // One run per thread; those on the left are done before. Warps without a run return early.
  __device__ __forceinline__ void scan_runs(int from, int runs, bool from_first) const {
    const bool any = from + (first & -group) < runs;
    Run run{};
    Value x[R];
    if (any) {
      run = run_of(from + first, runs, from_first);
      for_each_slot(run, [&](int i, const Value& slot) { x[i] = slot; });  // what lies after it enters no result
      blocks_of_run<Op, R>(x);
      if (run.whole()) total_of_run(run.first / R) = x[R - 1];
    }
    const bool groups = __syncthreads_or(run.whole() && int(run.number) + 1 >= group);  // is there a whole one?
    const int q = int(run.number) >> log_group, number = int(run.number) & (group - 1);
    const bool ends_group = run.whole() && number == group - 1;
    TwoRuns p{};
    if (any) {
      p = two_runs(run);
      up(p);
      if (ends_group) total_of_group(int(run.first / R) >> log_group) = p.value;
    }
    if (groups) __syncthreads();
    if (!any) return;
    SoFar<Op> before, up_to;
#pragma unroll 1
    for (int i = q > 0 || run.continued ? 0 : 1; i < (ends_group ? 2 : 1); i++) {
      before = up_to;
      up_to = before_group(run, q + i);
      if (!ends_group) before = up_to;
    }
    down(p, before);
    const Value so_far = left_of(p, 0).value;
    if (number > 0) before.value = so_far, before.there = true;
    if (run.count == 0) return;
    if (ends_group) p.value = up_to.value;
    tile.finish(x, before, p.value, stretch.begin + run.first);
    for_each_slot(run, [&](int i, Value& slot) {
      if (i < run.count) slot = x[i];
    });
  }
};

}  // namespace torch_reductions::cuda::scan
