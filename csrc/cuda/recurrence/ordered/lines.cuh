// Any layout: each thread holds a run of steps of one line in registers; lanes are neighbouring lines, or the runs of one.
//
// A missing operand is selected, never computed with (operators.h): which blocks stand before a run is a matter of its
// position alone, so every fold knows whether it is one of nothing.
#pragma once
#include "../../primitives/elements.cuh"
#include "../../scan/ordered/lines.cuh"
#include "../../scan/ordered/tiles.cuh"
#include "../../scan/ordered/tree.cuh"

namespace torch_reductions::cuda {

inline constexpr int kLineThreads = 256, kLogLineWarps = 3;
inline constexpr int kLineRadix = 3;
template <class T>
inline constexpr int kStepsOfRun = sizeof(Native<T>) == 4 ? 16 : 8;
template <class T>
inline constexpr int kLineBlocks = sizeof(Native<T>) == 4 ? 2 : 1;  // that a multiprocessor holds

struct RecurrenceLines {
  const char *gates, *tokens, *initial;
  char* output;
  int64_t count, length, inner;
  Strides gate_bytes, token_bytes;
  bool reverse;
};

// Strips of 2^log_lines lines, one a lane; 2^log_warps of a block's warps share a strip, the others take the next ones.
struct Cut {
  int log_lines, log_warps;
  unsigned groups;                                          // of strips that a block takes
  HOST_DEVICE int runs() const { return 32 >> log_lines; }  // of a line in a warp
};

// The fold of what came so far, which may be nothing.
template <class Op>
struct SoFar {
  typename Op::Value value{};
  bool there = false;
  __device__ __forceinline__ void append(typename Op::Value next) {
    value = there ? Op::combine(value, next) : next;
    there = true;
  }
};

template <class T>
struct LineTiles {
  using Op = Linear<Native<T>>;
  using Value = typename Op::Value;
  static constexpr int Run = kStepsOfRun<T>, Warps = 1 << kLogLineWarps;

  const RecurrenceLines& lines;
  const Cut& cut;
  const Carry<kLineRadix>& carry;
  Value (&warp_total)[kTotals][Warps][32];
  Value (
      &kept)[kLineRadix * kMaxLevels][32];  // [k]: the block of 2^k tiles before this one, where its number has bit k

  __device__ __forceinline__ int column() const { return threadIdx.x & ((1 << cut.log_lines) - 1); }
  __device__ __forceinline__ bool leads() const { return (threadIdx.x & 31) < 1 << cut.log_lines; }
  __device__ __forceinline__ int warp_of_strip() const { return (threadIdx.x >> 5) & ((1 << cut.log_warps) - 1); }

  struct Spot {
    unsigned group, tile;
  };
  struct Place {
    int64_t line, start;  // this thread's, and the position of its run
    bool exists;
  };
  __device__ __forceinline__ Spot spot(unsigned number) const {  // strips side by side in time
    const unsigned tile = number / cut.groups;
    return {number - tile * cut.groups, tile};
  }
  __device__ __forceinline__ Place place(Spot spot) const {
    const int64_t strip = int64_t(spot.group) * (Warps >> cut.log_warps) + (threadIdx.x >> (5 + cut.log_warps));
    const int64_t line = (strip << cut.log_lines) + column();
    const int64_t warp = (int64_t(spot.tile) << cut.log_warps) + warp_of_strip();
    return {line, (warp * cut.runs() + ((threadIdx.x & 31) >> cut.log_lines)) * Run, line < lines.count};
  }

  // Where a run begins in memory, and how far it is to its next element.
  struct Way {
    int64_t first, step;
  };
  __device__ __forceinline__ Way way(const Place& p, const Strides& strides) const {
    const int64_t outer = p.line >> 32 ? p.line / lines.inner : unsigned(p.line) / unsigned(lines.inner);
    const int64_t first = outer * strides.outer + (p.line - outer * lines.inner) * strides.inner;
    return lines.reverse ? Way{first + (lines.length - 1 - p.start) * strides.length, -strides.length}
                         : Way{first + p.start * strides.length, strides.length};
  }
  __device__ __forceinline__ static Native<T> read(const char* p) {
    uint32_t words[(sizeof(T) + 3) / 4];
    load_words<sizeof(T)>(words, p);
    return element<T>(words, 0);
  }
  // Elements of the run that are there.
  __device__ __forceinline__ int count_of(const Place& p) const {
    const int64_t left = p.exists ? lines.length - p.start : 0;
    return left <= 0 ? 0 : left < Run ? int(left) : Run;
  }
  __device__ __forceinline__ void load(Value (&x)[Run], const Place& p) const {
    const int count = count_of(p);
    const Way gate = way(p, lines.gate_bytes), token = way(p, lines.token_bytes);
    const char *g = lines.gates + gate.first, *t = lines.tokens + token.first;
    if (count == Run) {
#pragma unroll
      for (int i = 0; i < Run; i++, g += gate.step, t += token.step) x[i] = {read(g), read(t)};
    } else {
#pragma unroll
      for (int i = 0; i < Run; i++, g += gate.step, t += token.step)
        x[i] = i < count ? Value{read(g), read(t)} : Value{};  // anything: it comes behind all results
    }
  }
  // Each x[i] becomes the block that ends at i, as in a Fenwick tree; the last one is the whole run.
  __device__ __forceinline__ static void blocks_of(Value (&x)[Run]) {
#pragma unroll
    for (int half = 1; half < Run; half *= 2)
#pragma unroll
      for (int i = 2 * half - 1; i < Run; i += 2 * half) x[i] = Op::combine(x[i - half], x[i]);
  }
  __device__ __forceinline__ Value block_of_warps(Totals of, int from, int log_count) const {  // of the strip
    const int first = (threadIdx.x >> 5) - warp_of_strip() + from;
    return block_of<Op>([&](int i) { return warp_total[of][first + i][column()]; }, log_count);
  }

  // keep[k]: the block of 2^k runs left of this one's, where its place among them has bit k.
  struct State {
    Value x[Run], keep[5], of_warp;
  };
  // The runs of a line that lie in one warp.
  __device__ __forceinline__ Value up_warp(Value total, Value (&keep)[5]) const {
#pragma unroll
    for (int k = 0; k < 5; k++)
      if (cut.log_lines + k < 5) {  // uniform
        const int bit = cut.log_lines + k;
        keep[k] = shuffle_xor(total, 1 << bit);
        total = join<Op>(threadIdx.x >> bit & 1, total, keep[k]);
      }
    return total;
  }
  __device__ __forceinline__ void ask(Spot) const {}  // registers are filled by up()
  __device__ __forceinline__ State up(Spot spot) const {
    State s;
    load(s.x, place(spot));
    blocks_of(s.x);
    s.of_warp = up_warp(s.x[Run - 1], s.keep);
    if (leads()) warp_total[own][threadIdx.x >> 5][threadIdx.x & 31] = s.of_warp;
    return s;
  }
  // Nobody asks for the total of a line's last tile.
  __device__ __forceinline__ void total(Spot spot) const {
    Value x[Run], keep[5];
    load(x, place(spot));
    blocks_of(x);
    const Value of_warp = up_warp(x[Run - 1], keep);
    if (leads()) warp_total[running][threadIdx.x >> 5][threadIdx.x & 31] = of_warp;
  }

  // The first n < 8 totals of a group of 8, of this lane's line; n > 0. The others are the first one again.
  __device__ __forceinline__ void await(Value (&got)[8], int level, unsigned first, int n, int64_t line,
                                        unsigned tag) const {
    const uint64_t* const words = carry.template word<Value>(level, first, unsigned(line));
    const int64_t step = int64_t(carry.lines) * kTaggedWords<Value>;
    for (int asked = 0; !arrived(got, [&](int i) { return words + (i < n ? i : 0) * step; }, Awaited{tag, ~0u});)
      pause(++asked);
  }

  // The last of 8 tiles says their total too, the last of 64 theirs, long before a look-back asks for them.
  __device__ __forceinline__ void publish(Totals of, Spot spot, unsigned tag) const {
    const Place p = place(spot);
    if (threadIdx.x >= 32 || !leads() || !p.exists) return;
    const unsigned line = unsigned(p.line);
    Value v = block_of_warps(of, 0, kLogLineWarps), got[8];
    carry.say(0, spot.tile, line, v, tag);
    unsigned at = spot.tile;
    for (int level = 0; level + 1 < carry.levels && (at & 7) == 7; level++, at >>= kLineRadix) {
      await(got, level, at - 7, 7, p.line, tag);
      got[7] = v;
      v = tree<Op, 8>(got);
      carry.say(level + 1, at >> kLineRadix, line, v, tag);
    }
  }

  // A warp a level, a lane a line: the blocks of the digits of the tile's number.
  __device__ __forceinline__ void look_back(Spot spot, unsigned tag) const {
    const Place p = place(spot);
    if (!leads() || !p.exists) return;
    for (int level = threadIdx.x >> 5; level < carry.levels; level += Warps) {
      const unsigned at = spot.tile >> (kLineRadix * level);
      const int d = at & 7;
      if (d == 0) continue;
      Value got[8];
      await(got, level, at - d, d, p.line, tag);
      const Value two = Op::combine(got[0], got[1]), four = Op::combine(two, Op::combine(got[2], got[3]));
      const Value upper = Op::combine(got[4], got[5]);
      Value* const to = &kept[kLineRadix * level][threadIdx.x & 31];
      if (d & 4) to[2 * 32] = four;
      if (d & 2) to[1 * 32] = d & 4 ? upper : two;
      if (d & 1) to[0] = d & 4 ? (d & 2 ? got[6] : got[4]) : (d & 2 ? got[2] : got[0]);
    }
  }
  __device__ __forceinline__ SoFar<Op> before_tile(unsigned tile) const {
    SoFar<Op> v;
    for (int k = kLineRadix * carry.levels - 1; k >= 0; k--)
      if (tile >> k & 1) v.append(kept[k][column()]);
    return v;
  }
  // The fold up to the tile's end, given its own total: a step of the binary counter.
  __device__ __forceinline__ Value after_tile(unsigned tile, Value own) const {
    int k = 0;
    for (; tile >> k & 1; k++) own = Op::combine(kept[k][column()], own);
    SoFar<Op> v;
    for (int j = kLineRadix * carry.levels - 1; j > k; j--)
      if (tile >> j & 1) v.append(kept[j][column()]);
    v.append(own);
    return v.value;
  }

  __device__ __forceinline__ void down(Spot spot, State& s) const {
    const Place p = place(spot);
    const int lane = threadIdx.x & 31, warp = warp_of_strip(), warps = cut.log_warps;

    // The folds of what stands before this thread's warp and of all up to its end, then those of its run.
    SoFar<Op> before;
    Value after = s.of_warp;
    if (warps > 0) after = block_of_warps(own, 0, warps);
    if (carry.tiles > 1 && p.exists) {
      before = before_tile(spot.tile);
      if (warp == Warps - 1) after = after_tile(spot.tile, after);
    }
    const auto before_warp = [&](int w) {
      SoFar<Op> v = before;
#pragma unroll
      for (int k = kLogLineWarps - 1; k >= 0; k--)
        if (k < warps && (w >> k & 1)) v.append(block_of_warps(own, (w >> (k + 1)) << (k + 1), k));
      return v;
    };
    SoFar<Op> base = before_warp(warp);
    Value last = warp + 1 < 1 << warps ? before_warp(warp + 1).value : after;
#pragma unroll
    for (int k = 4; k >= 0; k--)
      if (cut.log_lines + k < 5 && lane >> (cut.log_lines + k) & 1) base.append(s.keep[k]);
    if (cut.log_lines < 5) {
      const Value next = shuffle(base.value, (lane + (1 << cut.log_lines)) & 31);
      if (lane + (1 << cut.log_lines) < 32) last = next;
    }
    if (!p.exists) return;

    Value(&x)[Run] = s.x;
#pragma unroll
    for (int i = 0; i + 1 < Run; i++) {
      const int start = i + 1 - ((i + 1) & -(i + 1));  // of the block that ends at i
      if (start > 0) x[i] = Op::combine(x[start > 0 ? start - 1 : 0], x[i]);
      else if (base.there) x[i] = Op::combine(base.value, x[i]);
    }
    x[Run - 1] = last;
    store(x, p);
  }
  __device__ __forceinline__ void store(const Value (&x)[Run], const Place& p) const {
    const int count = count_of(p);
    Native<T> y[Run];
#pragma unroll
    for (int i = 0; i < Run; i++) y[i] = x[i].token;
    if (lines.initial != nullptr) {
      const Native<T> h = read(lines.initial + p.line * int64_t(sizeof(T)));
#pragma unroll
      for (int i = 0; i < Run; i++) y[i] = Op::apply(x[i], h);
    }
    const Way out = way(p, {lines.length * lines.inner, lines.inner, 1});
    T* to = reinterpret_cast<T*>(lines.output) + out.first;
#pragma unroll
    for (int i = 0; i < Run; i++, to += out.step)
      if (i < count) *to = narrowed<T>(y[i]);
  }
};

template <class T>
__global__ void __launch_bounds__(kLineThreads, kLineBlocks<T>)
    recur_lines(const __grid_constant__ RecurrenceLines lines, const __grid_constant__ Cut cut, unsigned work,
                const __grid_constant__ Carry<kLineRadix> carry) {
  using Tiles = LineTiles<T>;
  __shared__ typename Tiles::Value warp_total[kTotals][Tiles::Warps][32], kept[kLineRadix * kMaxLevels][32];
  const Tiles tiles{lines, cut, carry, warp_total, kept};
  scan_tile(tiles, carry.board, work, carry.ahead, carry.tiles > 1, cut.log_warps > 0);
}

}  // namespace torch_reductions::cuda
