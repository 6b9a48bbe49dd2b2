// The kernel: a warp copies the runs of its lanes into shared memory, where each thread reads its own twice: for its
// total, and to scan it in registers, part by part. Lanes are neighbouring lines, or the runs of one (layouts.cuh).
// A missing operand is selected, never computed with (operators.h): every fold knows whether it is empty.
//
// Local:   recur_lines (8 bytes): of float64, whose totals of other tiles are twice as many words as of float32
#pragma once
#include "../../primitives/shared.cuh"
#include "../../scan/ordered/pipeline.cuh"
#include "../../scan/ordered/tree.cuh"
#include "layouts.cuh"

namespace torch_reductions::cuda::recurrence {

inline constexpr int kLineThreads = 32 << kLogLineWarps;

// Tiles of a strip of lines: each the runs of its warps. Continued: what came before a line may be given, and its total
// may be asked for.
template <class Layout, bool Continued>
struct LineTiles {
  using Element = typename Layout::Element;
  using Number = typename Layout::Number;
  using Op = Linear<Number>;
  using Value = typename Op::Value;
  static constexpr bool Carried = Layout::kCarried;
  static constexpr int Run = Layout::Run, Part = Layout::Part, Parts = Layout::Parts;
  static constexpr int Warps = 1 << kLogLineWarps, Columns = Layout::kColumns;
  // What a block has in shared memory besides its tiles. kept[k]: the 2^k tiles before this one, where its number has
  // bit k; before_all: the fold of all tiles before this one.
  struct TempStorage {
    Value warp_totals[Carried ? kBuffers : 1][Warps][Columns];
    Value kept[Carried ? kLaneRadix * kMaxLevels : 1][Columns];
    Value before_all[Columns];
  };

  Layout layout;
  const RecurrenceLines& lines;
  const LineConfig& config;
  const Carry<kLaneRadix>& carry;
  char* const buffers;
  TempStorage& storage;
  Value (*warp_total)[Columns] = storage.warp_totals[0];  // of the tile in use

  static HOST_DEVICE int tile_bytes(const LineConfig& config) {
    return 2 * Layout::bytes_of_warp(config) << config.log_block;
  }
  __device__ __forceinline__ void use(unsigned n) {
    layout.memory = buffers + n % kBuffers * tile_bytes(config);
    warp_total = storage.warp_totals[n % kBuffers];
  }

  __device__ __forceinline__ int column() const { return layout.column(); }
  __device__ __forceinline__ bool leads() const { return layout.leads(); }
  __device__ __forceinline__ TileCoord coord(unsigned number) const { return tile_coord(config.groups, number); }
  __device__ __forceinline__ void prefetch(TileCoord coord) const
    requires requires(const Layout& l) { l.prefetch(coord); }
  {
    layout.prefetch(coord);
  }
  __device__ __forceinline__ void issue_load(TileCoord coord) const { layout.issue_load(coord); }

  // node[Parts + j]: part j of the run; node[1]: all of it. The rest is computed again: registers are few.
  struct State {
    Value node[2 * Parts];
  };
  struct Nothing {};
  __device__ __forceinline__ Nothing load_hidden(TileCoord) const { return {}; }
  __device__ __forceinline__ State up(TileCoord coord, Nothing) const {
    State s;
    const auto rows = layout.rows_of(layout.run_coord(coord));
#pragma unroll
    for (int j = 0; j < Parts; j++) {
      Value x[Part];
      layout.load(x, rows, j);
      s.node[Parts + j] = tree<Op, Part>(x);
    }
    tree_up<Op, Parts>(s.node);
    Value left[5], of_warp = s.node[1];
    if constexpr (Layout::kLogLines < 5) of_warp = runs_of_warp<Op>(of_warp, left, layout.log_lines());
    if (leads()) warp_total[threadIdx.x >> 5][threadIdx.x & 31] = of_warp;
    return s;
  }

  // By the last warp, one lane per line.
  __device__ __forceinline__ void publish(TileCoord coord, unsigned tag) const {
    if (threadIdx.x + 32 < blockDim.x) return;
    const RunCoord p = layout.run_coord(coord);
    if (!leads() || !p.exists) return;
    const Value v = block_of<Op>([&](int i) { return warp_total[i][column()]; }, config.log_block);
    const LineTotals<kLaneRadix, Value> line{carry, p.column, tag};
    publish_totals<kLaneRadix, total_by_lane<Op, true>>(line, coord.tile, v, true);
  }

  __device__ __forceinline__ void look_back(TileCoord coord, unsigned tag) const {
    if (int(threadIdx.x >> 5) >= carry.levels || !leads()) return;
    const RunCoord p = layout.run_coord(coord);
    const LineTotals<kLaneRadix, Value> line{carry, p.column, tag};
    if (p.exists) look_back_by_lane<Op, true, false>(line, coord.tile, true, storage.kept, column());
  }
  // What came before the lane's line.
  __device__ __forceinline__ bool has_before() const { return Continued && lines.before_gates != nullptr; }
  __device__ __forceinline__ SoFar<Op> before_line(const RunCoord& p) const {
    SoFar<Op> v;
    v.there = has_before();  // uniform
    if (v.there && p.exists)
      v.value = {static_cast<const Number*>(lines.before_gates)[p.line],
                 static_cast<const Number*>(lines.before_tokens)[p.line]};
    return v;
  }
  // Stores the total of the lane's line, if the call asks for it.
  __device__ __forceinline__ bool gives_totals() const { return Continued && lines.total_gates != nullptr; }
  __device__ __forceinline__ void put_total(const RunCoord& p, Value total) const {
    static_cast<Number*>(lines.total_gates)[p.line] = total.gate;
    static_cast<Number*>(lines.total_tokens)[p.line] = total.token;
  }
  // The same of a line of 2^k elements that is no longer than a warp's runs. left[k]: the block of 2^k runs left of
  // this lane's.
  __device__ __forceinline__ void put_short_total(const RunCoord& p, const State& s, Value of_warp,
                                                  const Value (&left)[5]) const {
    const int run = (threadIdx.x & 31) >> layout.log_lines(), n = int(lines.length);
    if (n == Run << (5 - layout.log_lines())) {
      if (run == 0) put_total(p, of_warp);
    } else if (n >= Run) {
#pragma unroll
      for (int k = 0; k < 5; k++)
        if (run == 1 << k && n == Run << k) put_total(p, left[k]);
    } else if (run == 0) {
      put_total(p, total_in_run<Op, Part>(s.node, n, [&](Value(&x)[Part]) { layout.load(x, layout.rows_of(p), 0); }));
    }
  }

  using Around = scan::Around<Op, SoFar<Op>>;
  // Of the whole tile; `own` is its total.
  __device__ __forceinline__ Around around_tile(const RunCoord& p, unsigned tile, Value own) const {
    Around a{before_line(p), {}};
    // What stands before the tiles that a step of the binary counter joins with this one: its number ends in ones.
    SoFar<Op> rest = a.before;
    const int ones = __ffs(int(~tile)) - 1;
#pragma unroll 1
    for (int level = carry.levels - 1; level >= 0; level--) {
      const auto* const digit = &storage.kept[kLaneRadix * level];
      const unsigned bits = tile >> (kLaneRadix * level);
#pragma unroll
      for (int k = kLaneRadix - 1; k >= 0; k--) {
        if (bits >> k & 1) a.before.append(digit[k][column()]);
        if (kLaneRadix * level + k == ones) rest = a.before;
      }
    }
#pragma unroll 1
    for (int k = 0; k < ones; k++) own = Op::combine(storage.kept[k][column()], own);
    // The last tile, told by its place: nvcc 13.0 miscompiles tile + 1 == carry.tiles here.
    const bool ends_line = p.start + ((int64_t(Run) * config.runs()) << config.log_warps) >= lines.length;
    if (gives_totals() && ends_line) put_total(p, own);
    rest.append(own);
    a.last = rest.value;
    return a;
  }

  // By the first warp of a strip: each warp's total becomes the fold of all up to its end.
  __device__ __forceinline__ void scan_warps(const RunCoord& p, unsigned tile) const {
    auto* const total = warp_total + (threadIdx.x >> 5);
    const int warps = 1 << config.log_warps;
    Around all;
    const auto own = [&] { return block_of<Op>([&](int i) { return total[i][column()]; }, config.log_warps); };
    if constexpr (Carried) {
      all = around_tile(p, tile, own());
      storage.before_all[column()] = all.before.value;
    } else {
      all.before = before_line(p);
      if (gives_totals()) put_total(p, own());
    }
    Value x[Warps];
#pragma unroll
    for (int i = 0; i < Warps; i++) x[i] = total[i < warps ? i : 0][column()];
    blocks_of_run<Op, Warps>(x);
    Value last = x[Warps - 1];
    if (!Carried && all.before.there) last = Op::combine(all.before.value, last);
    folds_of_run<Op, Warps>(x, all.before, last);
#pragma unroll
    for (int i = 0; i < Warps; i++)
      if (i < warps) total[i][column()] = Carried && i + 1 == warps ? all.last : x[i];
  }

  __device__ __forceinline__ Around around(TileCoord coord, const RunCoord& p, const State& s) const {
    const int warp = layout.warp_of_strip();
    if (Carried || config.log_warps > 0) {
      if (warp == 0 && leads() && p.exists) scan_warps(p, coord.tile);
      __syncthreads();
    } else {
      __syncwarp();
    }
    Around a;
    const auto* const upto = &warp_total[threadIdx.x >> 5][column()];
    a.last = *upto;
    if (warp > 0) a.before.append(*(upto - Columns));
    else if (Carried && (coord.tile > 0 || has_before()) && p.exists) a.before.append(storage.before_all[column()]);
    else if (!Carried) a.before = before_line(p);
    Value left[5];
    if constexpr (Layout::kLogLines < 5) runs_of_warp<Op>(s.node[1], left, layout.log_lines());
    if (!Carried && config.log_warps == 0) {  // what stands there is the warp's own total
      if (gives_totals() && p.exists) put_short_total(p, s, a.last, left);
      if (a.before.there) a.last = Op::combine(a.before.value, a.last);
    }
    if constexpr (Layout::kLogLines < 5) {
      const int lane = threadIdx.x & 31, log_lines = layout.log_lines();
#pragma unroll
      for (int k = 4; k >= 0; k--)
        if (log_lines + k < 5 && lane >> (log_lines + k) & 1) a.before.append(left[k]);
      const int next_run = lane + (1 << log_lines);
      const Value next = shuffle(a.before.value, next_run & 31);
      if (next_run < 32) a.last = next;
    }
    return a;
  }

  __device__ __forceinline__ void down(TileCoord coord, const State& s) const {
    const RunCoord p = layout.run_coord(coord);
    const Around a = around(coord, p, s);
    if (lines.initial == nullptr) return write<false>(p, s, a, Number{});
    write<true>(p, s, a, p.exists ? load_native<Element>(lines.initial + p.line * int(sizeof(Element))) : Number{});
  }
  // The folds of the run, part by part. Without an initial state their gates are not needed.
  template <bool Begun>
  __device__ __forceinline__ void write(const RunCoord& p, const State& s, const Around& a, Number initial) const {
    const auto rows = layout.rows_of(p);
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
      layout.load(x, rows, j);
      blocks_of_run<Op, Part>(x);
      folds_of_run<Op, Part>(x, before_part(j), j + 1 < Parts ? before_part(j + 1).value : a.last);
      Number y[Part];
#pragma unroll
      for (int i = 0; i < Part; i++) y[i] = Begun ? Op::apply(x[i], initial) : x[i].token;
      writer.put(y, j);
    }
    writer.end();
  }
};

template <class Layout, bool Continued>
__global__ void __launch_bounds__(kLineThreads, Layout::kBlocks)
    recur_lines(const __grid_constant__ RecurrenceLines lines, const __grid_constant__ LineConfig config, unsigned work,
                const __grid_constant__ Carry<kLaneRadix> carry) {
  using Tiles = LineTiles<Layout, Continued>;
  __shared__ typename Tiles::TempStorage storage;
  char* const buffers = reinterpret_cast<char*>(memory);
  Tiles tiles{{{lines, config, buffers}}, lines, config, carry, buffers, storage};
  if constexpr (Layout::kCarried)
    if (gridDim.x < work) return scan_carried(tiles, carry.tile_state, work);
  scan_one(tiles, config.log_warps > 0, Layout::kCarried, carry.tile_state);
}

}  // namespace torch_reductions::cuda::recurrence
