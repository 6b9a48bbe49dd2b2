// A block's segments in shared memory: runs of a few elements, a thread a run, and above them the tree of each segment.
#pragma once
#include "../ordered/tree.cuh"
#include "windows.cuh"

namespace torch_reductions::cuda {

template <class Value>
struct SegmentMemory {
  static constexpr int kElements = kSegmentRun<Value> * kSegmentThreads, kWords = kElements / 32;
  static constexpr int kBankShift = sizeof(Value) == 4 ? 5 : sizeof(Value) == 8 ? 4 : 3;

  Value elements[kElements + (kElements >> kBankShift)];  // [positions, lines], a place free behind each 128 bytes
  Value node[kSegmentThreads];                            // [whole runs, lines]: blocks that end there
  Value kept[kSegmentRadix * kMaxLevels][32];             // [k]: the block of 2^k tiles before this one
  uint16_t run[kElements];                                // where each begins
  short number[kSegmentThreads];                          // of a whole run in its segment, or -1
  unsigned starts[kWords], marks[kWords];                 // bits: positions where a segment begins, or a run
  short start_before[kWords];                             // where the segment began that goes on into a word
  int runs_before[kWords + 1];
  int64_t found[2][3];
  Ticket ticket;

  __device__ __forceinline__ Value& element(int i) { return elements[i + (i >> kBankShift)]; }
};

// Neighbouring positions that hold whole segments, but for a tile at either end.
struct Stretch {
  int64_t begin;
  int length;
  bool alone;     // one tile
  unsigned tile;  // the number of the first one in its segment
};

template <class Job>
struct SegmentBlock {
  using Op = typename Job::Op;
  using Value = typename Op::Value;
  using Memory = SegmentMemory<Value>;
  static constexpr int R = kSegmentRun<Value>;

  const Job& job;
  const Windows& windows;
  Memory& memory;
  const unsigned window, tag;
  const Owned own;
  const int64_t outer, inner;  // this thread's line
  const int log = windows.log_lines, column = threadIdx.x & ((1 << log) - 1), first = threadIdx.x >> log,
            step = kSegmentThreads >> log;  // of positions, runs and whole runs
  const bool exists = inner < windows.inner;

  __device__ __forceinline__ int64_t line() const { return outer * windows.inner + inner; }

  // ---------------------------------------------------------------- elements and runs

  __device__ __forceinline__ void load(const Stretch& stretch) const {
    auto reader = job.reader(outer, inner, stretch.begin + first, step);
    Value x[R];
#pragma unroll
    for (int i = 0; i < R; i++, reader.advance())
      if (exists && first + i * step < stretch.length) x[i] = reader.value();
#pragma unroll
    for (int i = 0; i < R; i++)
      if (exists && first + i * step < stretch.length) memory.element(threadIdx.x + i * kSegmentThreads) = x[i];
  }

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
    return more < 32 ? marks & ((1u << more) - 1) : marks;
  }

  // Bits where segments begin, then where runs begin, then a list of those: how many there are.
  __device__ __forceinline__ int list_runs(const Stretch& stretch) const {
    const int tid = threadIdx.x, lane = tid & 31, words = (stretch.length + 31) / 32;
    for (int64_t s = own.segment + tid; s < own.segments_end; s += kSegmentThreads) {
      const int64_t at = windows.start(s) - stretch.begin;
      if (at >= 0 && at < stretch.length) atomicOr(&memory.starts[at / 32], 1u << (at & 31));
    }
    if (tid == 0) atomicOr(&memory.starts[0], 1u);
    __syncthreads();
    if (tid < 32) {
      constexpr int kEach = Memory::kWords / 32;  // words of a lane
      unsigned bits[kEach];
      int last = -1;
#pragma unroll
      for (int k = 0; k < kEach; k++) {
        const int w = lane * kEach + k;
        bits[k] = w < words ? memory.starts[w] : 0;
        if (bits[k] != 0) last = 32 * w + 31 - __clz(int(bits[k]));
      }
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const int other = shuffle(last, (lane - d) & 31);
        if (lane >= d && other > last) last = other;
      }
      int before = shuffle(last, (lane - 1) & 31), counts[kEach], runs = 0;
      if (lane == 0) before = -1;
#pragma unroll
      for (int k = 0; k < kEach; k++) {
        const int w = lane * kEach + k;
        counts[k] = 0;
        if (w < words) {
          const unsigned marks = marks_of(w, bits[k], before, stretch.length);
          memory.marks[w] = marks, memory.start_before[w] = short(before);
          counts[k] = __popc(marks);
        }
        if (bits[k] != 0) before = 32 * w + 31 - __clz(int(bits[k]));
        runs += counts[k];
      }
      int up_to = runs;
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const int other = shuffle(up_to, (lane - d) & 31);
        if (lane >= d) up_to += other;
      }
      int at = up_to - runs;
#pragma unroll
      for (int k = 0; k < kEach; k++) {
        if (lane * kEach + k < words) memory.runs_before[lane * kEach + k] = at;
        at += counts[k];
      }
      if (lane == 31) memory.runs_before[Memory::kWords] = at;
    }
    __syncthreads();
    if (tid < words) {
      int r = memory.runs_before[tid];
      for (unsigned marks = memory.marks[tid]; marks != 0; marks &= marks - 1)
        memory.run[r++] = uint16_t(32 * tid + __ffs(int(marks)) - 1);
    }
    __syncthreads();
    return memory.runs_before[Memory::kWords];
  }

  struct Run {
    int first, count, number;  // number: of the run in its segment's tile
    bool continued;            // is it of the tile that the stretch begins with, and that not the first of its segment?
  };
  __device__ __forceinline__ Run run_of(const Stretch& stretch, int r, int runs) const {
    if (stretch.alone) {
      const int more = stretch.length - r * R;
      return {r * R, more < R ? more : R, r, stretch.tile > 0};
    }
    const int at = memory.run[r], end = r + 1 < runs ? memory.run[r + 1] : stretch.length, w = at >> 5;
    const unsigned starts = memory.starts[w] & (0xffffffffu >> (31 - (at & 31)));
    const int start = starts != 0 ? 32 * w + 31 - __clz(int(starts)) : memory.start_before[w];
    return {at, end - at, (at - start) / R, start == 0 && stretch.tile > 0};
  }

  // ---------------------------------------------------------------- up: blocks of runs

  // A whole run r of a segment has its node at first / R, one behind that of the run before.
  __device__ __forceinline__ void up(const Stretch& stretch, int runs) const {
    for (int r = first; r < runs; r += step) {
      const Run run = run_of(stretch, r, runs);
      if (!exists || run.count < R) continue;
      Value x[R];
#pragma unroll
      for (int i = 0; i < R; i++) x[i] = memory.element(((run.first + i) << log) + column);
      memory.node[((run.first / R) << log) + column] = tree<Op, R>(x);
      if (column == 0) memory.number[run.first / R] = short(run.number);
    }
    __syncthreads();
    const int number = memory.number[first] + 1;
    for (int k = 0; __syncthreads_or(number >> k > 1); k++)
      if (exists && number > 0 && (number & ((2 << k) - 1)) == 0)
        memory.node[threadIdx.x] = Op::combine(memory.node[threadIdx.x - ((1 << k) << log)], memory.node[threadIdx.x]);
  }

  // ---------------------------------------------------------------- from tile to tile

  // The totals that stand at places at .. at + 6 of a level, of a segment that began in the window `from`: n of them, the
  // others are the first one again.
  __device__ __forceinline__ void await(Value (&got)[8], int level, int64_t from, unsigned at, int n) const {
    for (int asked = 0;; pause(++asked)) {
      const auto word = [&](int i) {
        const int64_t last = from + (int64_t(at + (i < n ? i : 0) + 1) << (kSegmentRadix * level)) - 1;
        return windows.template word<Value>(level, last, line());
      };
      if (arrived(got, word, Awaited{tag, ~0u})) return;
    }
  }
  __device__ __forceinline__ void say(int level, Value total) const {
    ::torch_reductions::cuda::publish(windows.template word<Value>(level, window, line()), total, tag);
  }
  // Every window says something at every level, so that nobody waits for ever, whatever the offsets are.
  __device__ __forceinline__ void publish_nothing() const {
    if (threadIdx.x >> log != 0 || !exists) return;
    for (int level = 0; level < windows.levels; level++) say(level, Value{});
  }
  // By the threads that hold the whole tile's node; the last of 8 tiles says their total too, the last of 64 theirs.
  __device__ __forceinline__ void publish(unsigned tile, int64_t segment_begin) const {
    if (first != step - 1 || !exists) return;
    Value total = memory.node[threadIdx.x], got[8];
    if (windows.levels > 0) say(0, total);
    unsigned at = tile;
    bool is_last = true;
    for (int level = 0; level + 1 < windows.levels; level++, at >>= kSegmentRadix) {
      is_last = is_last && (at & 7) == 7;
      if (is_last) {
        await(got, level, segment_begin >> windows.log_window, at - 7, 7);
        got[7] = total;
        total = tree<Op, 8>(got);
      }
      say(level + 1, total);
    }
  }
  // A warp a level, a lane a line: the blocks of the digits of the tile's number.
  __device__ __forceinline__ void look_back(unsigned tile, int64_t segment_begin) const {
    if ((threadIdx.x & 31) >> log != 0 || !exists) return;
    for (int level = threadIdx.x >> 5; level < windows.levels; level += kSegmentThreads / 32) {
      const unsigned at = tile >> (kSegmentRadix * level);
      const int d = at & 7;
      if (d == 0) continue;
      Value got[8];
      await(got, level, segment_begin >> windows.log_window, at - d, d);
      const Value two = Op::combine(got[0], got[1]), four = Op::combine(two, Op::combine(got[2], got[3]));
      const Value upper = Op::combine(got[4], got[5]);
      Value(*const to)[32] = &memory.kept[kSegmentRadix * level];
      if (d & 4) to[2][column] = four;
      if (d & 2) to[1][column] = d & 4 ? upper : two;
      if (d & 1) to[0][column] = d & 4 ? (d & 2 ? got[6] : got[4]) : (d & 2 ? got[2] : got[0]);
    }
  }
  __device__ __forceinline__ SoFar<Op> before_tile(unsigned tile) const {
    SoFar<Op> v;
    for (int k = kSegmentRadix * windows.levels - 1; k >= 0; k--)
      if (tile >> k & 1) v.append(memory.kept[k][column]);
    return v;
  }
  // The fold up to the tile's end, given its own total: a step of the binary counter.
  __device__ __forceinline__ Value after_tile(unsigned tile, Value total) const {
    int k = 0;
    for (; tile >> k & 1; k++) total = Op::combine(memory.kept[k][column], total);
    SoFar<Op> v;
    for (int j = kSegmentRadix * windows.levels - 1; j > k; j--)
      if (tile >> j & 1) v.append(memory.kept[j][column]);
    v.append(total);
    return v.value;
  }

  // ---------------------------------------------------------------- down: results in the elements' places

  __device__ __forceinline__ void down(const Stretch& stretch, int runs) const {
    for (int r = first; r < runs && exists; r += step) {
      const Run run = run_of(stretch, r, runs);
      Value x[R];
#pragma unroll
      for (int i = 0; i < R; i++) {
        x[i] = Value{};  // comes into no result
        if (i < run.count) x[i] = memory.element(((run.first + i) << log) + column);
      }
      blocks_of_run<Op, R>(x);

      // The fold before the run, and the one before the largest block that ends with it.
      const int slot = run.first / R, own_block = (run.number + 1) & -(run.number + 1);
      SoFar<Op> base, before_block;
      if (run.continued) before_block = base = before_tile(stretch.tile);
      for (int rest = run.number, runs_so_far = 0; rest != 0;) {
        const int digit = 1 << (31 - __clz(rest));
        rest ^= digit, runs_so_far += digit;
        base.append(memory.node[((slot - run.number + runs_so_far - 1) << log) + column]);
        if (digit > own_block) before_block = base;
      }
      if (run.count == R) {
        const Value block = memory.node[(slot << log) + column];
        before_block.append(block);
        const bool ends_tile = run.continued && run.number == step - 1;
        x[R - 1] = ends_tile ? after_tile(stretch.tile, block) : before_block.value;
      }
#pragma unroll
      for (int i = 0; i + 1 < R; i++) {
        const int start = i + 1 - ((i + 1) & -(i + 1));  // of the block that ends at i
        if (start > 0) x[i] = Op::combine(x[start > 0 ? start - 1 : 0], x[i]);
        else if (base.there) x[i] = Op::combine(base.value, x[i]);
      }
      if (job.exclusive) {
#pragma unroll
        for (int i = R - 1; i > 0; i--) x[i] = x[i - 1];
        x[0] = base.there ? base.value : job.nothing();
      }
      if constexpr (Job::kInitial) job.begin_with(x, outer, inner, stretch.begin + run.first, windows, own);
#pragma unroll
      for (int i = 0; i < R; i++)
        if (i < run.count) memory.element(((run.first + i) << log) + column) = x[i];
    }
  }

  __device__ __forceinline__ void store(const Stretch& stretch) const {
    auto writer = job.writer(outer, inner, stretch.begin + first, step);
#pragma unroll 4
    for (int i = 0; i < R; i++, writer.advance())
      if (exists && first + i * step < stretch.length) writer.put(memory.element(threadIdx.x + i * kSegmentThreads));
  }

  __device__ __forceinline__ void scan(const Stretch& stretch, bool whole, int64_t segment_begin) const {
    if (threadIdx.x < Memory::kWords) memory.starts[threadIdx.x] = 0;
    memory.number[threadIdx.x] = -1;
    __syncthreads();
    load(stretch);
    int runs = (stretch.length + R - 1) / R;
    if (!stretch.alone) runs = list_runs(stretch);
    else __syncthreads();
    up(stretch, runs);
    if (whole) publish(stretch.tile, segment_begin);
    if (stretch.tile > 0) look_back(stretch.tile, segment_begin);
    __syncthreads();
    down(stretch, runs);
    __syncthreads();
    store(stretch);
    __syncthreads();  // the next stretch takes the memory
  }

  // What goes beyond a tile is two stretches: that in front may have to wait, so the other one, for which others may, is first.
  __device__ __forceinline__ void run() const {
    const int64_t tile_length = int64_t(1) << windows.log_window;
    const bool apart = own.begins && (own.end - own.begin > tile_length || own.last_start == own.begin);
    const bool whole = (apart || !own.begins) && own.end - (apart ? own.last_start : own.begin) == tile_length;
    if (!whole && windows.levels > 0) publish_nothing();
    if (apart) scan({own.last_start, int(own.end - own.last_start), true, 0}, whole, own.last_start);
    const int64_t end = apart ? own.last_start : own.end;
    if (end > own.begin)
      scan({own.begin, int(end - own.begin), !own.begins, own.tile}, whole && !apart, own.continued_from);
  }
};

template <class Job>
__global__ void __launch_bounds__(kSegmentThreads, kSegmentBlocks<typename Job::Op>)
    scan_segments(const __grid_constant__ Job job, const __grid_constant__ Windows windows) {
  using Block = SegmentBlock<Job>;
  __shared__ typename Block::Memory memory;
  Ticket ticket{blockIdx.x, 0};
  if (windows.levels > 0) {
    if (threadIdx.x == 0) memory.ticket = draw_ticket(windows.board);
    __syncthreads();
    ticket = memory.ticket;
  }
  const unsigned window = ticket.number / windows.strips, strip = ticket.number - window * windows.strips;
  const unsigned outer = strip / windows.strips_of_outer, of_outer = strip - outer * windows.strips_of_outer;
  const int64_t inner = (int64_t(of_outer) << windows.log_lines) + (threadIdx.x & ((1 << windows.log_lines) - 1));
  const Block block{job, windows, memory, window, ticket.tag, find_owned(windows, window, memory.found), outer, inner};
  block.run();
}

}  // namespace torch_reductions::cuda
