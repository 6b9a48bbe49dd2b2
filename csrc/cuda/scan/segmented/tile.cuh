// A block's window in shared memory: how its elements get in and its results out, and what comes from earlier tiles.
//
// A warp copies the part that its threads scan where a stretch is one tile, so that only its lanes need to wait for it.
#pragma once
#include "../../primitives/async.cuh"
#include "../ordered/tree.cuh"
#include "windows.cuh"

namespace torch_reductions::cuda::scan {

// What a block does next: a stretch of a window, in one of the strips of lines.
struct Work {
  Stretch stretch;
  unsigned number, other;         // of the window and the strip; is it their other stretch?
  unsigned window, outer, strip;  // of the outer's strips
};

// Of the stretches that a block has at a time the elements of kStretches are in shared memory: one is read, the one
// before it scanned; the next one is known.
inline constexpr int kStretches = 2;

template <class Op, bool Rows>
struct SegmentMemory {
  using Value = typename Op::Value;
  static constexpr int R = kSegmentRun<Op>, kThreads = kSegmentThreads<Op>, kWarps = kThreads / 32;
  static constexpr int kTile = R * kThreads;                // elements
  static constexpr int kElements = kTile + kTile / kWarps;  // a segment may reach beyond the window
  static constexpr int kLines = 1 << kSegmentLogLines<Value, Rows>;

  Value elements[kStretches][kElements / R * (R + 1)];  // [positions, lines], a row of slots free after each run
  Value warp_total[kStretches][kWarps][kLines];
  union {
    Value total;  // of the thread's run, where a stretch is one tile
    int end;      // of the thread's segment, where it is several segments
  } own[kStretches][kThreads];
  Value node[kElements / R];                  // totals of whole runs [runs, lines]
  Value group[kElements / (32 * R)][kLines];  // of as many runs as a warp has of a line
  Work work[kStretches + 1];
  struct {
    uint16_t begin, end;
  } segment[kThreads];      // where they lie in the stretch
  int first_run[kThreads];  // how many runs stand before each of them
  int end_of_warp[kWarps], runs_of_warp[kWarps];
  unsigned tag;
  Value kept[kLaneRadix * kMaxLevels][kLines];  // [k]: the block of 2^k tiles before this one; of `levels` levels
  static constexpr size_t bytes(int levels) {
    return offsetof(SegmentMemory, kept) + levels * kLaneRadix * sizeof(Value[kLines]);
  }
};

// Rows: a block has one line, so that 2^log_lines is a constant.
template <class Job, bool Rows>
struct SegmentTile {
  using Op = typename Job::Op;
  using Value = typename Op::Value;
  using Memory = SegmentMemory<Op, Rows>;
  static constexpr int R = Memory::R, kLogRun = log2_of(R), kPart = 32 * R;  // elements that a warp copies
  static constexpr int kLogWarps = log2_of(Memory::kWarps);

  const Job& job;
  const Windows& windows;
  Memory& memory;
  const unsigned n;  // of this block's stretches
  const Work& work = memory.work[n % (kStretches + 1)];
  const Stretch& stretch = work.stretch;
  Value* const elements = memory.elements[n % kStretches];
  const bool exists = inner() < windows.inner;

  __device__ __forceinline__ Value& total() const { return memory.own[n % kStretches][threadIdx.x].total; }
  __device__ __forceinline__ int& end() const { return memory.own[n % kStretches][threadIdx.x].end; }

  __device__ __forceinline__ int log_lines() const { return Rows ? 0 : windows.log_lines; }
  __device__ __forceinline__ int column() const { return threadIdx.x & ((1 << log_lines()) - 1); }
  __device__ __forceinline__ bool leads() const { return (threadIdx.x & 31) >> log_lines() == 0; }
  __device__ __forceinline__ int64_t inner() const {
    return Rows ? 0 : (int64_t(work.strip) << log_lines()) + column();
  }
  __device__ __forceinline__ int64_t line() const { return work.outer * windows.inner + inner(); }

  // Element e of [positions, lines]; from a run to the next it is (R + 1) << log_lines() places.
  __device__ __forceinline__ int slot(int e) const { return e + (e >> (log_lines() + kLogRun) << log_lines()); }

  // ---------------------------------------------------------------- in and out

  // Of a part, each lane moves groups of V neighbouring elements, 32 * V apart, in the order of memory: e is its first
  // one, and they go `back` where memory runs against the scan.
  template <int V>
  struct Share {
    int e, back;
    __device__ __forceinline__ bool there(int k, int count) const { return back * k * (32 * V) < count - e; }
  };
  template <int V>
  __device__ __forceinline__ Share<V> share(int part) const {
    const int lane = threadIdx.x & 31, first = part * kPart;
    if constexpr (Rows) return job.reverse ? Share<V>{first + kPart - 1 - lane, -1} : Share<V>{first + lane, 1};
    else return {first + lane * V, 1};
  }
  // Where group k lies. Wide: of 32 lines, as many places behind the first group as a constant says.
  template <bool Wide, int V>
  __device__ __forceinline__ Value* slot_of(const Share<V>& s, int k) const {
    if constexpr (Rows) return &elements[slot(s.e)] + s.back * k * (32 + 32 / R);
    else if constexpr (Wide) return &elements[slot(s.e)] + k * 32 * V;
    else return &elements[slot(s.e + k * 32 * V)];
  }
  // body(share, count, outer, inner, position, step) for this warp's parts of a stretch of `elements` elements, at least
  // one; count: the elements that there are.
  template <int V, class Body>
  __device__ __forceinline__ void for_each_share(int elements, Body body) const {
    const int warp = threadIdx.x >> 5, log = log_lines();
#pragma unroll 1
    for (int part = warp; part == warp || part * kPart < elements; part += Memory::kWarps) {
      const Share<V> s = share<V>(part);
      const int64_t inner = Rows ? 0 : (int64_t(work.strip) << log) + (s.e & ((1 << log) - 1));
      body(s, inner < windows.inner ? stretch.length << log : 0, work.outer, inner, stretch.begin + (s.e >> log),
           s.back * (32 * V >> log));
    }
  }
  // move<Linear, Wide, N>(k, there): groups k .. k + N - 1 of a share; there(k): is it there? Linear: of a row whose
  // elements lie side by side all at once, else a few at a time.
  template <int V, class Accessor, class Move>
  __device__ __forceinline__ void move_share(int count, const Share<V>& s, const Accessor& accessor, Move move) const {
    const auto there = [&](int k) { return s.there(k, count); };
    if constexpr (Rows) {
      if (accessor.linear()) {
        if ((s.e / kPart + 1) * kPart <= count)
          return move.template operator()<true, false, R>(0, [](int) { return true; });
        return move.template operator()<true, false, R>(0, there);
      }
    }
    constexpr int kGroups = R / V, kFew = kGroups < 8 ? kGroups : 8;
#pragma unroll 1
    for (int k = 0; k < kGroups; k += kFew) {
      if (!Rows && log_lines() == 5) move.template operator()<false, true, kFew>(k, there);
      else move.template operator()<false, false, kFew>(k, there);
    }
  }

  // Where rows of several lines are vectors a lane moves kVector neighbouring elements at once, whose values are one.
  static constexpr bool kMovesVectors = !Rows && Job::kVector > 1;
  template <int V>
  struct alignas(V * sizeof(Value)) Group {
    Value x[V];
  };

  // Missing elements are zero, and enter no result. After several segments there is a run of zeros.
  template <int V>
  __device__ __forceinline__ void issue_groups() const {
    const int elements = (stretch.length + (stretch.alone() ? 0 : R)) << log_lines();
    for_each_share<V>(elements, [&](const Share<V>& s, int count, auto... at) {
      auto reader = job.reader(at...);
      move_share(count, s, reader, [&]<bool Linear, bool Wide, int N>(int from, auto there) {
        const auto group = [&](int k) { return reinterpret_cast<Group<V>*>(slot_of<Wide>(s, k)); };
        [[maybe_unused]] typename Job::template Loaded<V> loaded[N] = {};
#pragma unroll
        for (int i = 0; i < N; i++) {
          const int k = from + i;
          if constexpr (Job::template kCopies<V>) {
            if (there(k)) reader.template copy<V, Linear>(group(k), k);
            else *group(k) = {};
          } else if (there(k)) reader.template load<V, Linear>(loaded[i], k);
          if constexpr (!Linear) reader.advance();
        }
        if constexpr (!Job::template kCopies<V>) {
#pragma unroll
          for (int i = 0; i < N; i++) {
            Group<V> values;
#pragma unroll
            for (int j = 0; j < V; j++) values.x[j] = reader.value(loaded[i], j, from + i);
            *group(from + i) = values;
          }
        }
      });
    });
  }
  __device__ __forceinline__ void issue_load() const {
    if constexpr (kMovesVectors)
      if (windows.in_vectors) return issue_groups<Job::kVector>();
    issue_groups<1>();
  }
  // Hides masked elements, by the lane that copied them, whose copies are complete.
  __device__ __forceinline__ void hide() const {
    if constexpr (Job::kMasked) {
      if (!job.masked()) return;
      for_each_share<1>(stretch.length << log_lines(), [&](const Share<1>& s, int count, auto... at) {
        const auto shown = job.shown(at...);
        unsigned hidden = 0;
#pragma unroll 4
        for (int k = 0; k < R; k++)
          if (s.there(k, count)) hidden |= unsigned(shown.hides(k)) << k;
        for (; hidden != 0; hidden &= hidden - 1) *slot_of<false>(s, __ffs(int(hidden)) - 1) = job.hidden();
      });
    }
  }
  // The indices of joined lines.
  template <int V>
  __device__ __forceinline__ void move_in_front(const Share<V>& s, int count) const {
#pragma unroll 1
    for (int k = 0; k < R / V; k++)
      if (s.there(k, count))
#pragma unroll
        for (int j = 0; j < V; j++) job.move_in_front(slot_of<false>(s, k)[j].index);
  }
  template <int V>
  __device__ __forceinline__ void store_groups() const {
    for_each_share<V>(stretch.length << log_lines(), [&](const Share<V>& s, int count, auto... at) {
      if constexpr (IsIndexed<Value>::value)
        if (job.joined) move_in_front(s, count);
      auto writer = job.writer(at...);
      move_share(count, s, writer, [&]<bool Linear, bool Wide, int N>(int from, auto there) {
#pragma unroll
        for (int k = from; k < from + N; k++) {
          if (there(k)) {
            const Group<V> values = *reinterpret_cast<const Group<V>*>(slot_of<Wide>(s, k));
            writer.template put<V, Linear>(values.x, k);
          }
          if constexpr (!Linear) writer.advance();
        }
      });
    });
  }
  __device__ __forceinline__ void store() const {
    if constexpr (kMovesVectors)
      if (windows.in_vectors) return store_groups<Job::kVector>();
    store_groups<1>();
  }

  // ---------------------------------------------------------------- a run

  // x: the blocks of a run (tree.cuh), which begins at `position` and before which `base` stands; become its results.
  // last: the fold up to its end.
  __device__ __forceinline__ void finish(Value (&x)[R], const SoFar<Op>& base, Value last, int64_t position) const {
    folds_of_run<Op, R>(x, base, last);
    if (job.exclusive) {
#pragma unroll
      for (int i = R - 1; i > 0; i--) x[i] = x[i - 1];
      x[0] = base.there ? base.value : job.empty_value();
    }
    if constexpr (Job::kInitial) job.begin_with(x, work.outer, inner(), position, windows, stretch);
  }

  // ---------------------------------------------------------------- from tile to tile

  __device__ __forceinline__ int levels() const { return windows.levels; }
  // Of groups `first` and up of a level's tiles, of this stretch's first segment.
  __device__ __forceinline__ Totals totals(int level, unsigned first) const {
    const int64_t from = stretch.segment_begin >> windows.log_window;
    return windows.template totals<Value>(level, from + (int64_t(first + 1) << (kLaneRadix * level)) - 1, line(),
                                          memory.tag);
  }
  // Of the tile, or of the group that ends with it.
  __device__ __forceinline__ void publish_total(int level, unsigned, Value total) const {
    cuda::publish(windows.template totals<Value>(level, work.window, line(), memory.tag).words, total, memory.tag);
  }
  // Every window publishes something at every level, so that no block waits for ever, whatever the offsets are.
  __device__ __forceinline__ void publish_placeholders(int from) const {
    if (threadIdx.x >> log_lines() != 0 || !exists) return;
    for (int level = from; level < windows.levels; level++) publish_total(level, 0, Value{});
  }
  __device__ __forceinline__ static Value total_of_group(const Totals& totals, Value last) {
    if constexpr (Rows) return total_by_warp<Op, kLaneRadix>(totals, last);
    else return total_by_lane<Op, true>(totals, last);
  }
  // A whole tile's total, by the first warp; on how many levels.
  __device__ __forceinline__ int publish(Value total) const {
    const bool publishes = leads() && exists;
    if (!Rows && !publishes) return 0;
    return 1 + publish_totals<kLaneRadix, total_of_group>(*this, stretch.tile, total, publishes);
  }
  __device__ __forceinline__ void look_back() const {
    if (stretch.tile == 0) return;
    if constexpr (Rows) look_back_by_groups<Op>(*this, stretch.tile, memory.kept);
    else if (leads() && exists) look_back_by_lane<Op, true, false>(*this, stretch.tile, true, memory.kept, column());
  }
  __device__ __forceinline__ SoFar<Op> before_tile(unsigned tile) const {
    SoFar<Op> v;
    for (unsigned rest = tile; rest != 0;) {
      const int k = 31 - __clz(int(rest));
      v.append(memory.kept[k][column()]);
      rest ^= 1u << k;
    }
    return v;
  }
  // The fold up to the tile's end, given its own total: a step of the binary counter.
  __device__ __forceinline__ Value after_tile(unsigned tile, Value total) const {
    int k = 0;
    for (; tile >> k & 1; k++) total = Op::combine(memory.kept[k][column()], total);
    SoFar<Op> v = before_tile(tile >> k << k);
    v.append(total);
    return v.value;
  }
};

}  // namespace torch_reductions::cuda::scan
