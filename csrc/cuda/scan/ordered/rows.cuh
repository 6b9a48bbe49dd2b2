// Lines that are contiguous: a warp copies its part of a tile into shared memory, scans it there in place, and copies it out.
//
// A thread scans a run of kVectors neighbouring vectors of 16 bytes. Behind each run a vector stays free, so that the lanes
// of a warp, whose runs lie side by side, meet different banks.
#pragma once
#include "lines.cuh"
#include "mask.cuh"
#include "tiles.cuh"
#include "tree.cuh"

namespace torch_reductions::cuda {

inline constexpr int kRowThreads = 256, kLogRowWarps = 3;
inline constexpr int kRowRadix = 5;

template <class Value>
inline constexpr int kVectors = sizeof(Value) <= 8 && !IsIndexed<Value>::value ? 8 : 4;

// Indices lie behind the elements, in the same order; behind each run's one stays free.
template <class S>
inline constexpr int kRowBytes = [] {  // of shared memory that a thread takes
  using Value = typename S::Value;
  int bytes = 16 * (kVectors<Value> + 1);
  if constexpr (IsIndexed<Value>::value) bytes += (kVectors<Value> * S::E + 1) * int(sizeof(Value::index));
  return bytes;
}();

// Blocks that a multiprocessor holds: enough for some to compute while others wait. LogAdd needs registers for itself.
template <class Op, class Value = typename Op::Value>
inline constexpr int kRowBlocks = sizeof(Value) == 4     ? 4
                                  : !kIsNone<Op, LogAdd> ? 1
                                  : sizeof(Value) == 8   ? 3
                                                         : 2;

// A line of several tiles: a block a tile. Shorter ones: 2^log_threads threads a line, several lines a block.
//
// What lies behind a line's end is zero in shared memory. It stands in no result: a result is made of blocks that end at
// its own position or before.
template <class S>
struct RowTiles {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using T = typename S::Element;
  static constexpr int E = S::E, Vectors = kVectors<Value>, Run = Vectors * E, Warps = 1 << kLogRowWarps;
  static constexpr int kPitch = Vectors + 1;  // of runs, in vectors

  const S& source;
  const Lines& lines;
  const Carry<kRowRadix>& carry;
  const int64_t count;
  const int log_threads;
  uint4* const memory;  // of a tile
  Value (&warp_total)[kTotals][Warps];
  Value (&kept)[kRowRadix * kMaxLevels];
  // Threads of a line that lie in one warp, and this one's number among them: they copy the part of the line, of `all`
  // positions, that only they scan.
  const int lanes = 1 << (log_threads < 5 ? log_threads : 5), q = threadIdx.x & (lanes - 1), all = lanes * Run;

  struct Spot {
    unsigned group, tile;
  };
  struct Place {
    int64_t line, first;    // the position of the first element of this warp's part
    int elements, results;  // of the line's that lie in it
  };
  __device__ __forceinline__ Spot spot(unsigned number) const {
    if (carry.tiles == 1) return {number, 0};
    const unsigned group = number / carry.tiles;
    return {group, number - group * carry.tiles};
  }
  __device__ __forceinline__ Place place(Spot spot) const {
    const int64_t line = int64_t(spot.group) * (blockDim.x >> log_threads) + (threadIdx.x >> log_threads);
    const unsigned thread = threadIdx.x & ((1 << log_threads) - 1) & ~31;
    const int64_t first = ((int64_t(spot.tile) << log_threads) + thread) * Run;
    const auto within = [&](int64_t n) {
      return line >= count || n < first ? 0 : n - first < all ? int(n - first) : all;
    };
    return {line, first, within(lines.length), within(lines.results)};
  }

  // Vector v of this part of the line, in the order of memory.
  __device__ __forceinline__ uint4* vector(unsigned v) const {
    return memory + (threadIdx.x - q) * kPitch + v + v / Vectors;
  }
  __device__ __forceinline__ T* element(unsigned i) const { return reinterpret_cast<T*>(vector(i / E)) + i % E; }
  __device__ __forceinline__ auto* place_of_index(int i) const {
    using Index = decltype(Value::index);
    return reinterpret_cast<Index*>(memory + blockDim.x * kPitch) + (threadIdx.x - q) * (Run + 1) + i + i / Run;
  }
  // Are these `count` elements, the first of which stands at element(at), whole vectors on both sides?
  __device__ __forceinline__ static bool in_vectors(const T* global, int at, int count) {
    const unsigned bytes = unsigned(at | count) * unsigned(sizeof(T));
    return (unsigned(reinterpret_cast<uintptr_t>(global)) | bytes) % 16 == 0;
  }

  // In memory a reverse scan's part lies at the end of its space, the last position first.
  __device__ __forceinline__ void ask(Spot spot) const {
    const Place p = place(spot);
    const T* const from = reinterpret_cast<const T*>(lines.input + p.line * lines.outer_bytes) +
                          (lines.reverse ? lines.length - p.first - p.elements : p.first);
    const int at = lines.reverse ? all - p.elements : 0;
    if (in_vectors(from, at, p.elements)) {
#pragma unroll
      for (int k = 0; k < Vectors; k++)
        if (const int v = q + k * lanes; v < p.elements / E) copy_async(vector(at / E + v), from + v * E);
    } else {
#pragma unroll 4
      for (int i = q; i < p.elements; i += lanes) {
        if constexpr (sizeof(T) >= 4) copy_async<sizeof(T)>(element(at + i), from + i);
        else *element(at + i) = from[i];
      }
    }
    const int behind = lines.reverse ? 0 : p.elements;
#pragma unroll 1
    for (int i = q; i < all - p.elements; i += lanes) *element(behind + i) = T{};
  }

  // The identity in shared memory, by the warp that copied the elements.
  __device__ __forceinline__ void hide(Spot spot) const {
    const Place p = place(spot);
    const int64_t first = lines.reverse ? lines.length - p.first - p.elements : p.first;
    const int at = lines.reverse ? all - p.elements : 0;
    const T hidden = hidden_element(source);
    const uint8_t* shown = lines.mask.at(p.line, first + q, 0);
#pragma unroll 4
    for (int i = q; i < p.elements; i += lanes, shown += lanes * lines.mask.strides.length)
      if (*shown == 0) *element(at + i) = hidden;
    __syncwarp();
  }
  // Those of this thread's run, of extremes.
  __device__ __forceinline__ uint64_t hidden_of_run(const Place& p) const {
    if (!IsIndexed<Value>::value || lines.mask.data == nullptr) return 0;
    const int more = p.elements - q * Run;
    return hidden_bits(lines, lines.mask.at(p.line, lines.element(p.first + q * Run), 0), more < Run ? more : Run);
  }

  // This thread's vector j in the order of the scan, and its values.
  __device__ __forceinline__ uint4* run_vector(int j) const {
    const int run = lines.reverse ? lanes - 1 - q : q;
    return memory + (threadIdx.x - q + run) * kPitch + (lines.reverse ? Vectors - 1 - j : j);
  }
  __device__ __forceinline__ void load(Value* x, const Place& p, int j, uint64_t hidden) const {
    const uint4 w = *run_vector(j);
    uint32_t words[4] = {w.x, w.y, w.z, w.w};
    if (lines.reverse) mirror<sizeof(T)>(words);
#pragma unroll
    for (int i = 0; i < E; i++) {
      x[i] = source.value(words, i, p.first + q * Run + j * E + i);
      unname(x[i], hidden >> (j * E + i) & 1);
    }
  }

  __device__ __forceinline__ int log_warps() const { return log_threads > 5 ? log_threads - 5 : 0; }
  __device__ __forceinline__ Value block_of_warps(Totals of, int from, int log_count) const {
    return block_of<Op>([&](int i) { return warp_total[of][from + i]; }, log_count);
  }

  // node[Vectors + j]: vector j of the run; node[1]: all of it. keep[k]: the block of 2^k threads left of this one's.
  struct State {
    Value node[2 * Vectors], keep[5], of_warp;
  };
  __device__ __forceinline__ State up(Spot spot) const {
    if (lines.mask.data != nullptr) hide(spot);
    const Place p = place(spot);
    const uint64_t hidden = hidden_of_run(p);
    State s;
#pragma unroll
    for (int j = 0; j < Vectors; j++) {
      Value x[E];
      load(x, p, j, hidden);
      s.node[Vectors + j] = tree<Op, E>(x);
    }
    tree_up<Op, Vectors>(s.node);
    s.of_warp = s.node[1];
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < 5; k++) {
      s.keep[k] = Op::identity();
      if (k < log_threads) {  // uniform
        const Value other = shuffle_xor(s.of_warp, 1 << k);
        const bool right = lane >> k & 1;
        if (right) s.keep[k] = other;
        s.of_warp = join<Op>(right, s.of_warp, other);
      }
    }
    if (lane == 0) warp_total[own][threadIdx.x >> 5] = s.of_warp;
    return s;
  }

  // From memory, neighbouring lanes neighbouring vectors. Nobody asks for the total of a line's last tile.
  __device__ __forceinline__ void total(Spot spot) const {
    const Place p = place(spot);
    const bool whole = p.elements == all;
    const T* const from = reinterpret_cast<const T*>(lines.input + p.line * lines.outer_bytes) +
                          (lines.reverse ? lines.length - p.first - all : p.first);
    const int lane = threadIdx.x & 31;
    Value groups[Vectors];
    uint32_t words[Vectors][4] = {};
    const auto first = [&](int j) { return lines.reverse ? all - (j * 32 + lane + 1) * E : (j * 32 + lane) * E; };
    if (whole && in_vectors(from, 0, 0)) {
#pragma unroll
      for (int j = 0; j < Vectors; j++) load_words<16>(words[j], from + first(j));
    } else if (whole) {
#pragma unroll
      for (int j = 0; j < Vectors; j++) {
        T elements[E];
#pragma unroll
        for (int i = 0; i < E; i++) elements[i] = from[first(j) + i];
        memcpy(words[j], elements, 16);
      }
    }
#pragma unroll
    for (int j = 0; j < Vectors; j++) {
      Value x[E];
      if (lines.reverse) mirror<sizeof(T)>(words[j]);
#pragma unroll
      for (int i = 0; i < E; i++) x[i] = source.value(words[j], i, p.first + (j * 32 + lane) * E + i);
      groups[j] = tree<Op, E>(x);
    }
    const Value v = unit_total<Op>(groups, lane);
    if (lane == 0) warp_total[running][threadIdx.x >> 5] = v;
  }

  // The first `n` totals of a group of 32, one a lane; the last one, own, in lane n.
  __device__ __forceinline__ Value await(int level, unsigned first, int n, unsigned group, Value own,
                                         unsigned tag) const {
    const int lane = threadIdx.x & 31;
    Value v[1] = {Op::identity()};
    if (n > 0) {
      const uint64_t* const word = carry.template word<Value>(level, first + (lane < n ? lane : 0), group);
      for (int asked = 0;; pause(++asked)) {
        const bool all_there = arrived(v, [&](int) { return word; }, Awaited{tag, ~0u});
        if (__all_sync(kFullWarp, all_there)) break;
      }
    }
    return lane < n ? v[0] : lane == n ? own : Op::identity();
  }

  // The last of 32 tiles says their total too, the last of 1024 theirs, long before a look-back asks for them.
  __device__ __forceinline__ void publish(Totals of, Spot spot, unsigned tag) const {
    if (threadIdx.x >= 32) return;
    Value v = block_of_warps(of, 0, log_warps());
    if (threadIdx.x == 0) carry.say(0, spot.tile, spot.group, v, tag);
    unsigned at = spot.tile;
    for (int level = 0; level + 1 < carry.levels && (at & 31) == 31; level++, at >>= kRowRadix) {
      v = await(level, at - 31, 31, spot.group, v, tag);
#pragma unroll
      for (int k = 0; k < 5; k++) v = xor_step<Op>(v, k, threadIdx.x);
      if (threadIdx.x == 0) carry.say(level + 1, at >> kRowRadix, spot.group, v, tag);
    }
  }

  // A warp a level, a lane a total.
  __device__ __forceinline__ void look_back(Spot spot, unsigned tag) const {
    const int lane = threadIdx.x & 31;
    for (int level = threadIdx.x >> 5; level < carry.levels; level += blockDim.x >> 5) {
      const unsigned at = spot.tile >> (kRowRadix * level);
      const int d = at & 31;
      const Value v = await(level, at - d, d, spot.group, Op::identity(), tag);
      Value digit[kRowRadix];
      lane_digits<Op, kRowRadix>(v, d, digit, lane);
      if (lane == d)
#pragma unroll
        for (int k = 0; k < kRowRadix; k++) kept[kRowRadix * level + k] = digit[k];
    }
  }

  __device__ __forceinline__ void down(Spot spot, const State& s) const {
    const Place p = place(spot);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = log_warps();

    // The folds of what stands before the line's first warp here, and of all up to its last.
    Value before = Op::identity(), after = s.of_warp;
    if (warps > 0) after = block_of_warps(own, warp >> warps << warps, warps);
    if (carry.tiles > 1) {
      const int bits = kRowRadix * carry.levels;
      before = fold_kept<Op>(kept, bits, 1);
      if (warp == (blockDim.x >> 5) - 1) after = fold_next<Op>(kept, bits, 1, spot.tile, after);
    }
    // Down: the folds before this thread's run and up to its last element, then the vectors and their elements.
    const auto before_warp = [&](int w) {
      Value v = before;
#pragma unroll
      for (int k = kLogRowWarps - 1; k >= 0; k--)
        if (k < warps && (w >> k & 1)) v = Op::combine(v, block_of_warps(own, w >> (k + 1) << (k + 1), k));
      return v;
    };
    Value lo[2 * Vectors], hi[2 * Vectors];
    lo[1] = before_warp(warp);
    Value last = (warp + 1) & ((1 << warps) - 1) ? before_warp(warp + 1) : after;
#pragma unroll
    for (int k = 4; k >= 0; k--) lo[1] = Op::combine(lo[1], s.keep[k]);
    const Value next = shuffle(lo[1], (lane + 1) & 31);
    if ((lane + 1) & (lanes - 1)) last = next;
    hi[1] = last;
    tree_down<Op, Vectors>(s.node, lo, hi);
    const uint64_t hidden = hidden_of_run(p);

#pragma unroll
    for (int j = 0; j < Vectors; j++) {
      Value below[2 * E], from[2 * E], to[2 * E], y[E];
      load(below + E, p, j, hidden);
      tree_up<Op, E>(below);
      from[1] = lo[Vectors + j], to[1] = hi[Vectors + j];
      tree_down<Op, E>(below, from, to);
#pragma unroll
      for (int i = 0; i < E; i++) y[i] = lines.exclusive ? from[E + i] : to[E + i];
      const int64_t position = p.first + q * Run + j * E;
      if (j == 0)
        if (lines.exclusive && position == 0) y[0] = fold_of_nothing(source);
      uint32_t words[4];
      pack(words, source, y);
      if (lines.reverse) mirror<sizeof(T)>(words);
      *run_vector(j) = {words[0], words[1], words[2], words[3]};
      if constexpr (IsIndexed<Value>::value) {
        const int at = q * Run + j * E;
#pragma unroll
        for (int i = 0; i < E; i++)
          *place_of_index(lines.reverse ? all - 1 - at - i : at + i) = from_the_front(lines, y[i].index);
      }
    }
    __syncwarp();
    const int64_t first = p.line * lines.results + (lines.reverse ? lines.results - p.first - p.results : p.first);
    T* const to = reinterpret_cast<T*>(lines.output) + first;
    const int at = lines.reverse ? all - p.results : 0;
    if constexpr (IsIndexed<Value>::value)
#pragma unroll 4
      for (int i = q; i < p.results; i += lanes) lines.indices[first + i] = *place_of_index(at + i);
    if (in_vectors(to, at, p.results)) {
#pragma unroll
      for (int k = 0; k < Vectors; k++)
        if (const int v = q + k * lanes; v < p.results / E) *reinterpret_cast<uint4*>(to + v * E) = *vector(at / E + v);
    } else {
#pragma unroll 4
      for (int i = q; i < p.results; i += lanes) to[i] = *element(at + i);
    }
  }
};

template <class S>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks<typename S::Op>)
    scan_rows(const __grid_constant__ S source, const __grid_constant__ Lines lines, int64_t count, int log_threads,
              unsigned work, const __grid_constant__ Carry<kRowRadix> carry) {
  using Tiles = RowTiles<S>;
  extern __shared__ uint4 memory[];
  __shared__ typename S::Value warp_total[kTotals][Tiles::Warps], kept[kRowRadix * kMaxLevels];
  const Tiles tiles{source, lines, carry, count, log_threads, memory, warp_total, kept};
  const bool carried = carry.tiles > 1;
  scan_tile(tiles, carry.board, work, carry.ahead, carried, carried || log_threads > 5);
}

}  // namespace torch_reductions::cuda
