// Any layout: lanes are neighbouring lines, or the runs of one. A warp copies the runs of its lanes into shared memory, where
// each thread reads its own twice: for its total, and to scan it in registers, part by part.
//
// A missing operand is selected, never computed with (operators.h): which blocks stand before a run is a matter of its
// position alone, so every fold knows whether it is one of nothing.
#pragma once
#include "../../primitives/elements.cuh"
#include "../../scan/ordered/columns.cuh"
#include "../../scan/ordered/tiles.cuh"
#include "../../scan/ordered/tree.cuh"

namespace torch_reductions::cuda {

inline constexpr int kLineThreads = 256, kLogLineWarps = 3;
inline constexpr int kLineRadix = 3;
template <class T>
inline constexpr int kStepsOfRun = sizeof(Native<T>) == 4 ? 16 : 8;
inline constexpr int kStepsOfPart = 8;  // which registers hold
template <class T>
inline constexpr int kLineBlocks = sizeof(Native<T>) == 4 ? 3 : 2;  // that a multiprocessor holds

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
  bool along;       // a lane a run of one line, whose elements lie side by side: the warp copies them as they lie
  int run_bytes;    // from run to run in shared memory, of gates or of tokens: the lanes' elements meet different banks
  unsigned groups;  // of strips that a block takes
  HOST_DEVICE int runs() const { return 32 >> log_lines; }  // of a line in a warp
  HOST_DEVICE int warp_bytes() const { return runs() * run_bytes; }
};

template <class T>
struct LineTiles {
  using Op = Linear<Native<T>>;
  using Value = typename Op::Value;
  static constexpr int Run = kStepsOfRun<T>, Part = kStepsOfPart, Parts = Run / Part, Warps = 1 << kLogLineWarps;
  static constexpr int E = 16 / int(sizeof(T)), Vectors = Run / E;  // elements of a vector; vectors of a run

  const RecurrenceLines& lines;
  const Cut& cut;
  const Carry<kLineRadix>& carry;
  char* const memory;  // of a tile: a warp's gates, then its tokens, then the next warp's
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

  __device__ __forceinline__ char* gates_of_warp() const { return memory + (threadIdx.x >> 5) * 2 * cut.warp_bytes(); }
  __device__ __forceinline__ char* tokens_of_warp() const { return gates_of_warp() + cut.warp_bytes(); }

  // ---- along: the warp's part of a line, as it lies; of a reverse recurrence at the end of its space, last position first

  static constexpr int kAll = 32 * Run;
  struct Piece {
    int64_t first;  // element of the line
    int at, count;  // where it goes in the warp's space, and how many there are
  };
  __device__ __forceinline__ Piece piece(const Place& p) const {
    const int64_t first = p.start - (threadIdx.x & 31) * Run, left = p.exists ? lines.length - first : 0;
    const int n = left <= 0 ? 0 : left < kAll ? int(left) : kAll;
    return {lines.reverse ? lines.length - first - n : first, lines.reverse ? kAll - n : 0, n};
  }
  __device__ __forceinline__ T* slot(char* space, int i) const {
    return reinterpret_cast<T*>(space + i / Run * cut.run_bytes) + i % Run;
  }
  __device__ __forceinline__ static bool in_vectors(const void* global, const Piece& piece) {
    const unsigned bytes = unsigned(piece.at | piece.count) * unsigned(sizeof(T));
    return (unsigned(reinterpret_cast<uintptr_t>(global)) | bytes) % 16 == 0;
  }
  __device__ __forceinline__ void copy_in(char* space, const char* line, const Piece& piece) const {
    const T* const from = reinterpret_cast<const T*>(line) + piece.first;
    const int lane = threadIdx.x & 31;
    if (in_vectors(from, piece)) {
#pragma unroll
      for (int k = 0; k < Vectors; k++)
        if (const int i = (lane + k * 32) * E; i < piece.count) copy_async(slot(space, piece.at + i), from + i);
    } else {
#pragma unroll 4
      for (int i = lane; i < piece.count; i += 32) copy_one(slot(space, piece.at + i), from + i);
    }
    // Zeros behind the end: they stand in no result.
    for (int i = lane; i < kAll - piece.count; i += 32) *slot(space, (lines.reverse ? 0 : piece.count) + i) = T{};
  }
  __device__ __forceinline__ void copy_out(const char* space, T* line, const Piece& piece) const {
    T* const to = line + piece.first;
    const int lane = threadIdx.x & 31;
    if (in_vectors(to, piece)) {
#pragma unroll
      for (int k = 0; k < Vectors; k++)
        if (const int i = (lane + k * 32) * E; i < piece.count)
          *reinterpret_cast<uint4*>(to + i) =
              *reinterpret_cast<const uint4*>(slot(const_cast<char*>(space), piece.at + i));
    } else {
#pragma unroll 4
      for (int i = lane; i < piece.count; i += 32) to[i] = *slot(const_cast<char*>(space), piece.at + i);
    }
  }
  __device__ __forceinline__ static void copy_one(void* to, const void* from) {
    if constexpr (sizeof(T) >= 4) copy_async<sizeof(T)>(to, from);
    else *static_cast<T*>(to) = *static_cast<const T*>(from);
  }
  // Elements [0, Part) of part j of this lane's run, in the order of the recurrence.
  __device__ __forceinline__ void read_along(Native<T> (&x)[Part], const char* space, int j) const {
    const int lane = threadIdx.x & 31;
    const char* const from = space + (lines.reverse ? 31 - lane : lane) * cut.run_bytes +
                             (lines.reverse ? Parts - 1 - j : j) * Part * int(sizeof(T));
    uint32_t words[Part * sizeof(T) / 4];
#pragma unroll
    for (int v = 0; v < Part / E; v++) {
      const uint4 w = reinterpret_cast<const uint4*>(from)[v];
      words[4 * v] = w.x, words[4 * v + 1] = w.y, words[4 * v + 2] = w.z, words[4 * v + 3] = w.w;
    }
    if (lines.reverse) {
#pragma unroll
      for (int i = 0; i < Part; i++) x[i] = element<T>(words, Part - 1 - i);
    } else {
#pragma unroll
      for (int i = 0; i < Part; i++) x[i] = element<T>(words, i);
    }
  }

  // ---- any other way: a lane copies its own elements

  __device__ __forceinline__ int at_lane() const {
    return ((threadIdx.x & 31) >> cut.log_lines) * cut.run_bytes + column() * int(sizeof(T));
  }
  __device__ __forceinline__ int row_bytes() const { return int(sizeof(T)) << cut.log_lines; }
  __device__ __forceinline__ void copy_own(char* space, const char* data, const Way& way, int count) const {
    const char* from = data + way.first;
    char* to = space + at_lane();
    if (count == Run) {
#pragma unroll
      for (int i = 0; i < Run; i++, from += way.step, to += row_bytes()) copy_one(to, from);
    } else {
      for (int i = 0; i < Run; i++, from += way.step, to += row_bytes()) {
        if (i < count) copy_one(to, from);
        else *reinterpret_cast<T*>(to) = T{};
      }
    }
  }
  __device__ __forceinline__ void read_own(Native<T> (&x)[Part], const char* space, int j) const {
    const char* const from = space + at_lane() + j * Part * row_bytes();
#pragma unroll
    for (int i = 0; i < Part; i++) x[i] = read(from + i * row_bytes());
  }

  __device__ __forceinline__ void ask(Spot spot) const {
    const Place p = place(spot);
    if (cut.along) {
      const Piece part = piece(p);
      const int64_t outer = p.exists ? p.line / lines.inner : 0, inner = p.exists ? p.line - outer * lines.inner : 0;
      const auto line = [&](const char* data, const Strides& s) { return data + outer * s.outer + inner * s.inner; };
      copy_in(gates_of_warp(), line(lines.gates, lines.gate_bytes), part);
      copy_in(tokens_of_warp(), line(lines.tokens, lines.token_bytes), part);
    } else if (p.exists) {
      copy_own(gates_of_warp(), lines.gates, way(p, lines.gate_bytes), count_of(p));
      copy_own(tokens_of_warp(), lines.tokens, way(p, lines.token_bytes), count_of(p));
    }
  }
  __device__ __forceinline__ void load(Value (&x)[Part], const Place& p, int j) const {
    Native<T> gates[Part] = {}, tokens[Part] = {};
    if (cut.along) read_along(gates, gates_of_warp(), j), read_along(tokens, tokens_of_warp(), j);
    else if (p.exists) read_own(gates, gates_of_warp(), j), read_own(tokens, tokens_of_warp(), j);
#pragma unroll
    for (int i = 0; i < Part; i++) x[i] = {gates[i], tokens[i]};
  }
  __device__ __forceinline__ Value block_of_warps(Totals of, int from, int log_count) const {  // of the strip
    const int first = (threadIdx.x >> 5) - warp_of_strip() + from;
    return block_of<Op>([&](int i) { return warp_total[of][first + i][column()]; }, log_count);
  }

  // node[Parts + j]: part j of the run; node[1]: all of it. What else there is, is made again: registers are few.
  struct State {
    Value node[2 * Parts];
  };
  // The runs of a line that lie in one warp. keep[k]: the block of 2^k runs left of this one's, where its place among them
  // has bit k.
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
  __device__ __forceinline__ State up(Spot spot) const {
    const Place p = place(spot);
    State s;
#pragma unroll
    for (int j = 0; j < Parts; j++) {
      Value x[Part];
      load(x, p, j);
      s.node[Parts + j] = tree<Op, Part>(x);
    }
    tree_up<Op, Parts>(s.node);
    Value keep[5];
    const Value of_warp = up_warp(s.node[1], keep);
    if (leads()) warp_total[own][threadIdx.x >> 5][threadIdx.x & 31] = of_warp;
    return s;
  }
  // From memory; never along. Nobody asks for the total of a line's last tile.
  __device__ __forceinline__ void total(Spot spot) const {
    const Place p = place(spot);
    const Way gate = way(p, lines.gate_bytes), token = way(p, lines.token_bytes);
    const char *g = lines.gates + gate.first, *t = lines.tokens + token.first;
    const bool whole = count_of(p) == Run;
    Value node[2 * Parts], keep[5];
#pragma unroll
    for (int j = 0; j < Parts; j++) {
      Value x[Part] = {};
#pragma unroll
      for (int i = 0; i < Part; i++, g += gate.step, t += token.step)
        if (whole) x[i] = {read(g), read(t)};
      node[Parts + j] = tree<Op, Part>(x);
    }
    tree_up<Op, Parts>(node);
    const Value of_warp = up_warp(node[1], keep);
    if (leads()) warp_total[running][threadIdx.x >> 5][threadIdx.x & 31] = of_warp;
  }

  // The first n < 8 totals of a group of 8, of this lane's line; n > 0. The others are the first one again.
  __device__ __forceinline__ void await(Value (&got)[8], int level, unsigned first, int n, int64_t line,
                                        unsigned tag) const {
    const uint64_t* const words = carry.template word<Value>(level, first, unsigned(line));
    const int64_t step = int64_t(carry.lines) * kTaggedWords<Value>;
#pragma unroll
    for (int half = 0; half < 8; half += 4) {  // the words of eight would not fit into the registers
      Value(&four)[4] = reinterpret_cast<Value(&)[4]>(got[half]);
      const auto word = [&](int i) { return words + (half + i < n ? half + i : 0) * step; };
      for (int asked = 0; !arrived(four, word, Awaited{tag, ~0u});) pause(++asked);
    }
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

  __device__ __forceinline__ void down(Spot spot, const State& s) const {
    const Place p = place(spot);
    const int lane = threadIdx.x & 31, warp = warp_of_strip(), warps = cut.log_warps;

    // The folds of what stands before this thread's warp and of all up to its end, then those of its run.
    Value keep[5];
    SoFar<Op> before;
    Value after = up_warp(s.node[1], keep);
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
      if (cut.log_lines + k < 5 && lane >> (cut.log_lines + k) & 1) base.append(keep[k]);
    if (cut.log_lines < 5) {
      const Value next = shuffle(base.value, (lane + (1 << cut.log_lines)) & 31);
      if (lane + (1 << cut.log_lines) < 32) last = next;
    }

    // The folds of the run, part by part; `last` is that up to its end.
    const Way out = way(p, {lines.length * lines.inner, lines.inner, 1});
    T* to = reinterpret_cast<T*>(lines.output) + (p.exists ? out.first : 0);
    const int count = count_of(p);
    const bool begun = lines.initial != nullptr && p.exists;
    const Native<T> h = begun ? read(lines.initial + p.line * int64_t(sizeof(T))) : Native<T>{};
#pragma unroll
    for (int j = 0; j < Parts; j++) {
      Value x[Part];
      load(x, p, j);
      SoFar<Op> next = base;
      next.append(s.node[Parts + j]);
      folds_of_part(x, base, j + 1 < Parts ? next.value : last);
      base = next;
      Native<T> y[Part];
#pragma unroll
      for (int i = 0; i < Part; i++) y[i] = begun ? Op::apply(x[i], h) : x[i].token;
      if (cut.along) {
        write_along(y, j);
      } else {
#pragma unroll
        for (int i = 0; i < Part; i++, to += out.step)
          if (j * Part + i < count) *to = narrowed<T>(y[i]);
      }
    }
    if (!cut.along) return;
    __syncwarp();
    copy_out(tokens_of_warp(), reinterpret_cast<T*>(lines.output) + p.line * lines.length, piece(p));
  }
  __device__ __forceinline__ static void folds_of_part(Value (&x)[Part], const SoFar<Op>& base, Value last) {
    blocks_of_run<Op, Part>(x);
#pragma unroll
    for (int i = 0; i + 1 < Part; i++) {
      const int start = i + 1 - ((i + 1) & -(i + 1));  // of the block that ends at i
      if (start > 0) x[i] = Op::combine(x[start > 0 ? start - 1 : 0], x[i]);
      else if (base.there) x[i] = Op::combine(base.value, x[i]);
    }
    x[Part - 1] = last;
  }
  // Over the tokens, which only this lane reads.
  __device__ __forceinline__ void write_along(const Native<T> (&y)[Part], int j) const {
    const int lane = threadIdx.x & 31;
    char* const to = tokens_of_warp() + (lines.reverse ? 31 - lane : lane) * cut.run_bytes +
                     (lines.reverse ? Parts - 1 - j : j) * Part * int(sizeof(T));
    T elements[Part];
#pragma unroll
    for (int i = 0; i < Part; i++) elements[i] = narrowed<T>(lines.reverse ? y[Part - 1 - i] : y[i]);
    uint4 vectors[Part / E];
    memcpy(vectors, elements, sizeof vectors);
#pragma unroll
    for (int v = 0; v < Part / E; v++) reinterpret_cast<uint4*>(to)[v] = vectors[v];
  }
};

template <class T>
__global__ void __launch_bounds__(kLineThreads, kLineBlocks<T>)
    recur_lines(const __grid_constant__ RecurrenceLines lines, const __grid_constant__ Cut cut, unsigned work,
                const __grid_constant__ Carry<kLineRadix> carry) {
  using Tiles = LineTiles<T>;
  extern __shared__ uint4 memory[];
  __shared__ typename Tiles::Value warp_total[kTotals][Tiles::Warps][32], kept[kLineRadix * kMaxLevels][32];
  const Tiles tiles{lines, cut, carry, reinterpret_cast<char*>(memory), warp_total, kept};
  scan_tile(tiles, carry.board, work, carry.ahead, carry.tiles > 1, cut.log_warps > 0);
}

}  // namespace torch_reductions::cuda
