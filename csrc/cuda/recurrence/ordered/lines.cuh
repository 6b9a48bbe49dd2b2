// The kernel: a warp copies the runs of its lanes into shared memory, where each thread reads its own twice: for its total,
// and to scan it in registers, part by part. Lanes are neighbouring lines, or the runs of one (layouts.cuh).
//
// A missing operand is selected, never computed with (operators.h): which blocks stand before a run is a matter of its
// position alone, so every fold knows whether it is one of nothing.
#pragma once
#include "../../scan/ordered/tiles.cuh"
#include "../../scan/ordered/tree.cuh"
#include "layouts.cuh"

namespace torch_reductions::cuda {

inline constexpr int kLineThreads = 32 << kLogLineWarps;
inline constexpr int kLineRadix = 3;

template <class Layout>
struct LineTiles {
  using T = typename Layout::Element;
  using Op = Linear<Native<T>>;
  using Value = typename Op::Value;
  static constexpr int Run = Layout::Run, Part = Layout::Part, Parts = Layout::Parts, Warps = 1 << kLogLineWarps;

  const Layout layout;
  const RecurrenceLines& lines;
  const Cut& cut;
  const Carry<kLineRadix>& carry;
  Value (&warp_total)[kTotals][Warps][32];
  Value (
      &kept)[kLineRadix * kMaxLevels][32];  // [k]: the block of 2^k tiles before this one, where its number has bit k
  Value (&before_all)[32];                  // the fold of all tiles before this one

  __device__ __forceinline__ int column() const { return layout.column(); }
  __device__ __forceinline__ bool leads() const { return layout.leads(); }
  __device__ __forceinline__ int warp_of_strip() const { return layout.warp_of_strip(); }
  __device__ __forceinline__ Place place(Spot spot) const { return layout.place(spot); }
  __device__ __forceinline__ Spot spot(unsigned number) const {  // strips side by side in time
    const unsigned tile = number / cut.groups;
    return {number - tile * cut.groups, tile};
  }
  __device__ __forceinline__ void ask(Spot spot) const { layout.ask(place(spot)); }

  __device__ __forceinline__ Value block_of_warps(Totals of, int from, int log_count) const {  // of the strip
    const int first = (threadIdx.x >> 5) - warp_of_strip() + from;
    return block_of<Op>([&](int i) { return warp_total[of][first + i][column()]; }, log_count);
  }

  // node[Parts + j]: part j of the run; node[1]: all of it. What else there is, is made again: registers are few.
  struct State {
    Value node[2 * Parts];
  };
  __device__ __forceinline__ State up(Spot spot) const {
    const Place p = place(spot);
    State s;
#pragma unroll
    for (int j = 0; j < Parts; j++) {
      Value x[Part];
      layout.load(x, j);
      s.node[Parts + j] = tree<Op, Part>(x);
    }
    tree_up<Op, Parts>(s.node);
    Value keep[5];
    const Value of_warp = runs_of_warp<Op>(s.node[1], keep, layout.log_lines());
    if (leads()) warp_total[own][threadIdx.x >> 5][threadIdx.x & 31] = of_warp;
    return s;
  }
  // From memory; never along. Nobody asks for the total of a line's last tile.
  __device__ __forceinline__ void total(Spot spot) const {
    const Place p = place(spot);
    const auto gate = layout.way(p, lines.gate_bytes), token = layout.way(p, lines.token_bytes);
    const char *g = lines.gates + gate.first, *t = lines.tokens + token.first;
    const bool whole = layout.count_of(p) == Run;
    Value node[2 * Parts], keep[5];
#pragma unroll
    for (int j = 0; j < Parts; j++) {
      Value x[Part] = {};
#pragma unroll
      for (int i = 0; i < Part; i++, g += gate.step, t += token.step)
        if (whole) x[i] = {Layout::read(g), Layout::read(t)};
      node[Parts + j] = tree<Op, Part>(x);
    }
    tree_up<Op, Parts>(node);
    const Value of_warp = runs_of_warp<Op>(node[1], keep, layout.log_lines());
    if (leads()) warp_total[running][threadIdx.x >> 5][threadIdx.x & 31] = of_warp;
  }

  // The n totals from `first` on, of this lane's line; n > 0. The others are the first one again.
  template <int N>
  __device__ __forceinline__ void await(Value (&got)[N], int level, unsigned first, int n, int64_t line,
                                        unsigned tag) const {
    const uint64_t* const words = carry.template word<Value>(level, first, unsigned(line));
    const int64_t step = int64_t(carry.lines) * kTaggedWords<Value>;
    const auto word = [&](int i) { return words + (i < n ? i : 0) * step; };
    for (int asked = 0; !arrived(got, word, Awaited{tag, ~0u});) pause(++asked);
  }

  // The last of 8 tiles says their total too, the last of 64 theirs, long before a look-back asks for them. Of eight at once
  // the words would not fit into the registers.
  __device__ __forceinline__ void publish(Totals of, Spot spot, unsigned tag) const {
    const Place p = place(spot);
    if (threadIdx.x >= 32 || !leads() || !p.exists) return;
    const unsigned line = unsigned(p.line);
    Value v = block_of_warps(of, 0, kLogLineWarps);
    carry.say(0, spot.tile, line, v, tag);
    unsigned at = spot.tile;
    for (int level = 0; level + 1 < carry.levels && (at & 7) == 7; level++, at >>= kLineRadix) {
      Value left[4], right[3];
      await(left, level, at - 7, 4, p.line, tag);
      const Value four = tree<Op, 4>(left);
      await(right, level, at - 3, 3, p.line, tag);
      v = Op::combine(four, Op::combine(Op::combine(right[0], right[1]), Op::combine(right[2], v)));
      carry.say(level + 1, at >> kLineRadix, line, v, tag);
    }
  }

  // A warp a level, a lane a line: the blocks of the digits of the tile's number.
  __device__ __forceinline__ void look_back(Spot spot, unsigned tag) const {
    const Place p = place(spot);
    if (!leads() || !p.exists) return;
    for (int level = threadIdx.x >> 5; level < carry.levels; level += Warps) {
      const unsigned at = spot.tile >> (kLineRadix * level);
      Value* const to = &kept[kLineRadix * level][threadIdx.x & 31];
      if (at & 4) {
        Value four[4];
        await(four, level, at & ~7u, 4, p.line, tag);
        to[2 * 32] = tree<Op, 4>(four);
      }
      if (at & 3) {
        Value three[3];
        await(three, level, at & ~3u, int(at & 3), p.line, tag);
        if (at & 2) to[1 * 32] = Op::combine(three[0], three[1]);
        if (at & 1) to[0] = at & 2 ? three[2] : three[0];
      }
    }
  }
  // Tiles are carried from one to the next only where all warps of a block share a strip.
  __device__ __forceinline__ SoFar<Op> before_tile(unsigned tile) const {
    SoFar<Op> v;
    for (unsigned rest = tile; rest != 0;) {
      const int k = 31 - __clz(int(rest));
      v.append(kept[k][column()]);
      rest ^= 1u << k;
    }
    return v;
  }
  // The fold up to the tile's end, given its own total: a step of the binary counter.
  __device__ __forceinline__ Value after_tile(unsigned tile, Value own) const {
    int k = 0;
    for (; tile >> k & 1; k++) own = Op::combine(kept[k][column()], own);
    SoFar<Op> v = before_tile(tile >> k << k);
    v.append(own);
    return v.value;
  }

  // The folds of what stands before this thread's run and of all up to its end.
  struct Around {
    SoFar<Op> before;
    Value last;
  };
  __device__ __forceinline__ Around around(Spot spot, const Place& p, Value total) const {
    const int lane = threadIdx.x & 31, warp = warp_of_strip();
    Around a;
    Value keep[5],
        left[kLogLineWarps];  // left[k]: the block of 2^k warps left of this one's, where its number has bit k
    a.last = runs_of_warp<Op>(total, keep, layout.log_lines());
#pragma unroll
    for (int k = 0; k < kLogLineWarps; k++)
      if (warp >> k & 1) left[k] = block_of_warps(own, (warp >> (k + 1)) << (k + 1), k);
    if (carry.tiles > 1) {
      if (warp == 0 && leads() && p.exists) before_all[column()] = before_tile(spot.tile).value;
      __syncthreads();
      if (spot.tile > 0 && p.exists) a.before.append(before_all[column()]);
    }
    // A step of the binary counter: the warp's number ends in ones up to bit `carried`.
    const int carried = __ffs(~warp) - 1;
    SoFar<Op> rest = a.before;
#pragma unroll
    for (int k = 0; k < kLogLineWarps; k++)
      if (k < carried) a.last = Op::combine(left[k], a.last);
#pragma unroll
    for (int k = kLogLineWarps - 1; k >= 0; k--)
      if (warp >> k & 1) {
        a.before.append(left[k]);
        if (k > carried) rest = a.before;
      }
    if (carry.tiles > 1 && warp == Warps - 1) {
      if (p.exists) a.last = after_tile(spot.tile, a.last);
    } else {
      rest.append(a.last);
      a.last = rest.value;
    }
#pragma unroll
    for (int k = 4; k >= 0; k--)
      if (layout.log_lines() + k < 5 && lane >> (layout.log_lines() + k) & 1) a.before.append(keep[k]);
    if (layout.log_lines() < 5) {
      const int next_run = lane + (1 << layout.log_lines());
      const Value next = shuffle(a.before.value, next_run & 31);
      if (next_run < 32) a.last = next;
    }
    return a;
  }

  __device__ __forceinline__ void down(Spot spot, const State& s) const {
    const Place p = place(spot);
    const Around a = around(spot, p, s.node[1]);
    if (lines.initial == nullptr) return write<false>(p, s, a, Native<T>{});
    write<true>(p, s, a, p.exists ? Layout::read(lines.initial + p.line * int64_t(sizeof(T))) : Native<T>{});
  }
  // The folds of the run, part by part. Without an initial state nobody asks for their gates.
  template <bool Begun>
  __device__ __forceinline__ void write(const Place& p, const State& s, const Around& a, Native<T> initial) const {
    typename Layout::Writer writer{layout, p};
    const auto before_part = [&](int j) {
      SoFar<Op> v = a.before;
#pragma unroll
      for (int k = log2_of(Parts) - 1; k >= 0; k--)
        if (j >> k & 1) v.append(s.node[(Parts >> k) + (j >> (k + 1)) * 2]);
      return v;
    };
#pragma unroll
    for (int j = 0; j < Parts; j++) {
      Value x[Part];
      layout.load(x, j);
      folds_of_part(x, before_part(j), j + 1 < Parts ? before_part(j + 1).value : a.last);
      Native<T> y[Part];
#pragma unroll
      for (int i = 0; i < Part; i++) y[i] = Begun ? Op::apply(x[i], initial) : x[i].token;
      writer.put(y, j);
    }
    writer.end();
  }
  __device__ __forceinline__ static void folds_of_part(Value (&x)[Part], const SoFar<Op>& base, Value last) {
    blocks_of_run<Op, Part>(x);
    folds_of_run<Op, Part>(x, base, last);
  }
};

template <class Layout>
__global__ void __launch_bounds__(kLineThreads, Layout::kBlocks)
    recur_lines(const __grid_constant__ RecurrenceLines lines, const __grid_constant__ Cut cut, unsigned work,
                const __grid_constant__ Carry<kLineRadix> carry) {
  using Tiles = LineTiles<Layout>;
  extern __shared__ uint4 memory[];
  __shared__ typename Tiles::Value warp_total[kTotals][Tiles::Warps][32], kept[kLineRadix * kMaxLevels][32],
      before_all[32];
  const Tiles tiles{{{lines, cut, reinterpret_cast<char*>(memory)}}, lines, cut, carry, warp_total, kept, before_all};
  scan_tile(tiles, carry.board, work, carry.ahead, carry.tiles > 1, cut.log_warps > 0);
}

}  // namespace torch_reductions::cuda
