// Any layout: lanes are neighbouring lines.
//
// A warp copies runs of its lines into shared memory, where each thread reads a run of one line, twice: for its total,
// and to scan it in registers, part by part: few of them, so that many threads are resident. Where to combine is dear,
// the run stays in registers in between.
//
// Local:   scan_columns (16 bytes): of extremes of halves, three of whose blocks of 32 lines fit
#pragma once
#include "../../primitives/fast_div.cuh"
#include "../../primitives/shared.cuh"
#include "lines.cuh"
#include "mask.cuh"
#include "pipeline.cuh"
#include "tree.cuh"

namespace torch_reductions::cuda::scan {

inline constexpr int kColumnThreads = 256, kLogColumnWarps = 3;

// The elements of a part, which registers hold, and of a run.
inline constexpr int kPart = 8;
template <class Op, class Value = typename Op::Value>
inline constexpr int kRun = kIsDear<Op>                                  ? kDearRun<Value>
                            : sizeof(Value) <= 4 || IsPair<Value>::value ? 32
                            : sizeof(Value) == 8                         ? 16
                                                                         : 8;
// Of extremes with an index, runs that fewer threads scan, each of which then finds out for more elements what it has to.
inline constexpr int kLongRun = 32;
template <class S, class T = typename S::Element>  // float32 gains nothing; int16 is rare
inline constexpr bool kLengthens = IsIndexed<typename S::Value>::value && sizeof(typename S::Value) == 8 &&
                                   !std::is_same_v<T, float> && !std::is_same_v<T, int16_t>;

// Blocks that a multiprocessor holds.
template <class Op, int Width, class Value = typename Op::Value>
inline constexpr int kColumnBlocks = sizeof(Value) == 4 || (Width > 0 && IsIndexed<Value>::value) ? 3
                                     : sizeof(Value) == 8                                         ? 2
                                                                                                  : 1;

// The step from a run in shared memory to the next: those of a warp that has several meet different banks.
HOST_DEVICE constexpr int bytes_of_run(int run, int lines, int size) {
  const int row = lines * size, gap = lines > 16 ? 0 : row;
  return (run * row + 15) / 16 * 16 + (gap + 15) / 16 * 16;
}

// How the lines are divided into strips of at most 2^log_lines lines, one per lane, and how a strip's tile lies in
// memory.
struct ColumnConfig {
  enum Kind {
    elements,  // any strides: each lane copies its own elements
    rows,      // neighbouring lines, in vectors of 16 bytes
    packed,    // the strip is all there is of [length, inner]: its rows follow one another in memory
  } kind;
  int log_lines, lines;      // of a strip; the lanes beyond `lines` idle
  int log_block, log_warps;  // warps of a block; of them those that share a strip; the others take the next strips
  int row_bytes, run_bytes;  // steps in shared memory, of the rows of a run and of runs
  int64_t outer_bytes;       // of the input, if packed: where the next strip begins
  // The number of strip groups (a block takes one at a time); lines.inner.
  FastDiv groups, inner;

  HOST_DEVICE int runs() const { return 32 >> log_lines; }  // of a warp
  HOST_DEVICE int tile_bytes() const { return (runs() << log_block) * run_bytes; }
};

// A tile: a strip of lines, and of each the runs of its threads. Width > 0: kind `rows` with this compile-time number
// of lines per strip, fewer than 2^31 lines in all, and 32-bit byte offsets within a run. 0: any layout.
template <class S, int RunLength, int Width>
struct ColumnTiles {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using T = typename S::Element;
  using Result = typename ResultOf<S>::type;
  static constexpr bool Wide = Width > 0;
  static constexpr int kLines = Wide ? Width : 32;        // of a strip, at most
  using Offset = std::conditional_t<Wide, int, int64_t>;  // in bytes, from a row of the run to another
  static constexpr int Run = RunLength, Parts = Run / kPart, Warps = 1 << kLogColumnWarps;

  const S& source;
  const Lines& lines;
  const ColumnConfig& config;
  const Carry<kLaneRadix>& carry;
  const int64_t count;
  char* const buffers;
  Value (&warp_totals)[kBuffers][Warps][kLines];
  Value (&kept)[kLaneRadix * kMaxLevels][kLines];
  // What belongs to the tile in use.
  char* memory = buffers;
  Value (*warp_total)[kLines] = warp_totals[0];

  __device__ __forceinline__ void use(unsigned n) {
    memory = buffers + n % kBuffers * config.tile_bytes();
    warp_total = warp_totals[n % kBuffers];
  }

  __device__ __forceinline__ int log_lines() const { return Wide ? log2_of(Width) : config.log_lines; }
  __device__ __forceinline__ int runs() const { return 32 >> log_lines(); }  // of a line that lie in one warp
  __device__ __forceinline__ int row_bytes() const { return Wide ? Width * int(sizeof(T)) : config.row_bytes; }
  __device__ __forceinline__ int run_bytes() const {
    return Wide ? bytes_of_run(Run, Width, sizeof(T)) : config.run_bytes;
  }
  __device__ __forceinline__ bool packed() const { return !Wide && !kWidens<S> && config.kind == ColumnConfig::packed; }
  __device__ __forceinline__ int column() const { return threadIdx.x & ((1 << log_lines()) - 1); }
  __device__ __forceinline__ bool leads() const { return (threadIdx.x & 31) < 1 << log_lines(); }
  __device__ __forceinline__ int warp_of_strip() const { return (threadIdx.x >> 5) & ((1 << config.log_warps) - 1); }

  struct RunCoord {
    int64_t strip, line;
    int64_t first, start;  // positions: where the warp's runs begin, and this thread's
    bool exists;
  };
  __device__ __forceinline__ TileCoord coord(unsigned number) const { return tile_coord(config.groups, number); }
  __device__ __forceinline__ RunCoord run_coord(TileCoord coord) const {
    RunCoord p;
    p.strip =
        int64_t(coord.group) * (1 << (config.log_block - config.log_warps)) + (threadIdx.x >> (5 + config.log_warps));
    p.line = p.strip * (Wide ? Width : config.lines) + column();
    p.exists = !idle() && p.line < count;
    p.first = ((int64_t(coord.tile) << config.log_warps) + warp_of_strip()) * runs() * Run;
    p.start = p.first + ((threadIdx.x & 31) >> log_lines()) * Run;
    return p;
  }
  struct Index {
    int64_t outer, inner;
  };
  __device__ __forceinline__ Index index(int64_t line) const {
    if (line < lines.inner) return {0, line};
    if (Wide) {
      const unsigned outer = config.inner.div(unsigned(line));
      return {outer, unsigned(line) - outer * config.inner.divisor};
    }
    const int64_t outer = line >> 31 ? line / lines.inner : config.inner.div(unsigned(line));
    return {outer, line - outer * lines.inner};
  }
  // In a reverse scan a packed strip lies in shared memory in memory order, last position first.
  __device__ __forceinline__ bool backwards() const { return packed() && lines.reverse; }
  __device__ __forceinline__ char* rows_of_run(int run) const {  // of this warp
    return memory + ((threadIdx.x >> 5) * runs() + run) * run_bytes();
  }
  __device__ __forceinline__ bool idle() const { return !Wide && column() >= config.lines; }
  // Position i of this thread's run is at mine() + i * step().
  __device__ __forceinline__ char* mine() const {
    return rows_of_run((threadIdx.x & 31) >> log_lines()) + (backwards() ? (Run - 1) * row_bytes() : 0) +
           column() * int(sizeof(T));
  }
  __device__ __forceinline__ int step() const { return backwards() ? -row_bytes() : row_bytes(); }

  // Copies n bytes of a packed run, by the warp.
  template <bool Async>
  __device__ __forceinline__ static void copy_run(char* to, const char* from, int n) {
    const int lane = threadIdx.x & 31;
    if ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | unsigned(n)) % 16 == 0) {
#pragma unroll 4
      for (int v = lane * 16; v < n; v += 32 * 16) {
        if constexpr (Async) cp_async(to + v, from + v);
        else *reinterpret_cast<uint4*>(to + v) = *reinterpret_cast<const uint4*>(from + v);
      }
    } else {
#pragma unroll 4
      for (int v = lane * int(sizeof(T)); v < n; v += 32 * int(sizeof(T))) copy_one<T, Async>(to + v, from + v);
    }
  }
  // The rows of run r of this warp, clipped to the line's `all` positions; they are contiguous in memory.
  struct Rows {
    int count;
    int64_t first;  // row in memory
    char* shared;
  };
  __device__ __forceinline__ Rows packed_rows(const RunCoord& p, int r, int64_t all) const {
    const int64_t start = p.first + int64_t(r) * Run, more = all - start;
    const int rows = more <= 0 ? 0 : more < Run ? int(more) : Run;
    return {rows, lines.reverse ? all - start - rows : start,
            rows_of_run(r) + (lines.reverse ? (Run - rows) * config.row_bytes : 0)};
  }

  __device__ __forceinline__ static int within(int64_t left, int most = Run) {
    return left < 0 ? 0 : left < most ? int(left) : most;
  }
  __device__ __forceinline__ int elements_of_run(const RunCoord& p) const {
    return p.exists ? within(lines.length - p.start) : 0;
  }

  __device__ __forceinline__ void issue_load(TileCoord coord) const {
    const RunCoord p = run_coord(coord);
    if (masks<Value>(lines)) prefetch_mask(p);
    if (Wide || config.kind == ColumnConfig::rows) issue_rows(p);
    else if (packed()) issue_packed(p);
    else issue_elements(p);
    // Zeros after the end, as in rows.cuh.
    const int there = elements_of_run(p);
    if (there < Run && !idle()) {
      char* const to = mine();
#pragma unroll 1
      for (int i = there; i < Run; i++) *reinterpret_cast<T*>(to + i * step()) = T{};
    }
  }
  // Prefetches into the L2 what load_hidden() will read, a row per lane.
  __device__ __forceinline__ void prefetch_mask(const RunCoord& p) const {
    const int64_t line = p.line - column();
    if (line >= count) return;
    const auto [outer, inner] = index(line);
    const int there = within(lines.length - p.first, runs() * Run);
    for (int i = threadIdx.x & 31; i < there; i += 32)
      prefetch_to_l2(lines.mask.at(outer, lines.element(p.first + i), inner));
  }
  // Prefetches into the L2 what issue_load will copy of rows, one cache line per lane.
  __device__ __forceinline__ void prefetch(TileCoord coord) const {
    if constexpr (Wide) {
      constexpr int kBytes = kLines * int(sizeof(T)), kOfRow = kBytes > 128 ? kBytes / 128 : 1;  // cache lines
      const RunCoord p = run_coord(coord);
      const int64_t line = p.strip * kLines;
      if (line >= count) return;
      const auto [outer, inner] = index(line);
      const char* const from = lines.input + outer * lines.outer_bytes + inner * lines.inner_bytes;
      const int there = within(lines.length - p.first, 32 / kLines * Run) * kOfRow;
      for (int i = threadIdx.x & 31; i < there; i += 32)
        prefetch_to_l2(from + lines.element(p.first + i / kOfRow) * lines.length_bytes + i % kOfRow * 128);
    }
  }
  // A lane copies a vector of some lines of every kRows-th row.
  __device__ __forceinline__ void issue_rows(const RunCoord& p) const {
    constexpr int kLanes = kLines * int(sizeof(T)) / 16, kRows = 32 / kLanes;  // of a row; at once
    constexpr int kAll = 32 / kLines * Run;                                    // rows of all runs of the warp
    const int gap = run_bytes() - Run * row_bytes();                           // behind a run
    const int lane = threadIdx.x & 31, begin = lane / kLanes;
    const int64_t line = p.strip * kLines + lane % kLanes * int(16 / sizeof(T));
    const auto [outer, inner] = index(line);
    const char* from = opaque(lines.input + outer * lines.outer_bytes + inner * lines.inner_bytes +
                              lines.element(p.first + begin) * lines.length_bytes);
    char* const to = opaque(rows_of_run(0) + lane * 16);
    const Offset rows = kRows * Offset(lines.reverse ? -lines.length_bytes : lines.length_bytes);
    const int there = line < count ? within(lines.length - p.first, kAll) - begin : 0;
#pragma unroll
    for (int k = 0; k < kAll / kRows; k++, from += rows)
      if (k * kRows < there) cp_async(to + k * 512 + k * kRows / Run * gap, from);
  }
  __device__ __forceinline__ void issue_packed(const RunCoord& p) const {
    if (p.strip * config.lines >= count) return;
    for (int r = 0; r < runs(); r++) {
      const Rows rows = packed_rows(p, r, lines.length);
      copy_run<true>(rows.shared, lines.input + p.strip * config.outer_bytes + rows.first * row_bytes(),
                     rows.count * row_bytes());
    }
  }
  // A lane copies an element of its own line of each row.
  __device__ __forceinline__ void issue_elements(const RunCoord& p) const {
    if (!p.exists) return;
    const auto [outer, inner] = index(p.line);
    const int64_t row = lines.reverse ? -lines.length_bytes : lines.length_bytes;
    const char* from = lines.input + outer * lines.outer_bytes + inner * lines.inner_bytes +
                       lines.element(p.start) * lines.length_bytes;
    char* to = mine();
    const int there = within(lines.length - p.start);
#pragma unroll 4
    for (int i = 0; i < there; i++, to += row_bytes(), from += row) copy_one<T>(to, from);
  }

  // The masked elements of this thread's run.
  using Hidden = uint32_t;
  static_assert(Run <= 32);
  __device__ __forceinline__ Hidden load_hidden(TileCoord coord) const {
    if (!masks<Value>(lines)) return 0;
    const RunCoord p = run_coord(coord);
    const auto [outer, inner] = index(p.line);
    const int64_t step = lines.reverse ? -lines.mask.strides.length : lines.mask.strides.length;
    return hidden_bits<Hidden>(lines.mask.at(outer, lines.element(p.start), inner), step, elements_of_run(p));
  }
  // Stores the identity over them in shared memory.
  __device__ __forceinline__ void hide(Hidden hidden) const {
    const T put = hidden_element(source);
    char* const to = mine();
#pragma unroll
    for (int i = 0; i < Run; i++)
      if (hidden >> i & 1) *reinterpret_cast<T*>(to + i * step()) = put;
  }

  // Part j of the run.
  __device__ __forceinline__ void load(Value* x, const RunCoord& p, int j, Hidden hidden) const {
    const char* const from = mine();
    if (idle()) {
#pragma unroll
      for (int i = 0; i < kPart; i++) x[i] = Op::identity();
      return;
    }
#pragma unroll
    for (int i = 0; i < kPart; i++) {
      x[i] = load_one(source, from + (j * kPart + i) * step(), p.start + j * kPart + i);
      clear_index(x[i], hidden >> (j * kPart + i) & 1);
    }
  }
  __device__ __forceinline__ void store(const Value* x, int j) const {
    char* const to = mine();
    if (idle()) return;
#pragma unroll
    for (int i = 0; i < kPart; i++) *reinterpret_cast<T*>(to + (j * kPart + i) * step()) = stored(source, x[i]);
  }
  __device__ __forceinline__ Value block_of_warps(int from, int log_count) const {  // of the strip
    const int first = (threadIdx.x >> 5) - warp_of_strip() + from;
    return block_of<Op>([&](int i) { return warp_total[first + i][column()]; }, log_count);
  }

  // node[Parts + j]: part j of the run; node[1]: all of it. Where to combine is dear, the blocks that end at its
  // elements. keep[k]: the block of 2^k runs left of this one's.
  struct State {
    Value node[kIsDear<Op> ? Run : 2 * Parts], keep[5], of_warp;
  };
  // The blocks of a run of what is dear. Those of doubles wait in shared memory.
  static constexpr bool kBack = kIsDear<Op> && sizeof(Value) == 8;
  __device__ __forceinline__ void load_blocks(Value (&x)[Run], const RunCoord& p, const State& s) const {
    if constexpr (kBack) {
#pragma unroll
      for (int j = 0; j < Parts; j++) load(x + j * kPart, p, j, 0);
    } else {
#pragma unroll
      for (int i = 0; i < Run; i++) x[i] = s.node[i];
    }
  }
  // The elements of a run that are combined where that is dear: of a short line no more than it has.
  static constexpr int kLeast = sizeof(Value) == 4 ? 2 : Run;
  __device__ __forceinline__ int needed() const {
    return lines.results >= Run ? Run : lines.results <= kLeast ? kLeast : 2 << highest_bit(lines.results - 1);
  }
  __device__ __forceinline__ State up(TileCoord coord, Hidden hidden) const {
    const RunCoord p = run_coord(coord);
    State s;
    if (masks<Value>(lines)) hide(hidden);
    Value total;
    if constexpr (kIsDear<Op>) {
#pragma unroll
      for (int j = 0; j < Parts; j++)
        if (j * kPart < lines.results) load(s.node + j * kPart, p, j, hidden);
      total = blocks_of_first<Op, kLeast>(s.node, needed());
      if constexpr (kBack) {
#pragma unroll
        for (int j = 0; j < Parts; j++) store(s.node + j * kPart, j);
      }
    } else {
#pragma unroll
      for (int j = 0; j < Parts; j++) {
        Value x[kPart];
        load(x, p, j, hidden);
        blocks_of_run<Op, kPart>(x);
        s.node[Parts + j] = x[kPart - 1];
      }
      tree_up<Op, Parts>(s.node);
      total = s.node[1];
    }
    left_blocks<Op>(total, s.keep, log_lines(), 5, threadIdx.x);
    s.of_warp = total;
    if (leads()) warp_total[threadIdx.x >> 5][threadIdx.x & 31] = s.of_warp;
    return s;
  }

  // Do the words of seven totals not fit into the registers, beside a run?
  static constexpr bool kHalves = kIsDear<Op> && sizeof(Value) == 4;
  // One lane per line.
  __device__ __forceinline__ void publish(TileCoord coord, unsigned tag) const {
    const RunCoord p = run_coord(coord);
    if (threadIdx.x + 32 < blockDim.x || !leads() || !p.exists) return;
    const LineTotals<kLaneRadix, Value> line{carry, unsigned(p.line), tag};
    publish_totals<kLaneRadix, total_by_lane<Op, kHalves>>(line, coord.tile, block_of_warps(0, config.log_warps), true);
  }

  __device__ __forceinline__ void look_back(TileCoord coord, unsigned tag) const {
    const RunCoord p = run_coord(coord);
    const LineTotals<kLaneRadix, Value> line{carry, unsigned(p.line), tag};
    if (leads()) look_back_by_lane<Op, kHalves, true>(line, coord.tile, p.exists, kept, column());
  }

  // Of this thread's run.
  __device__ __forceinline__ Around<Op> around_run(TileCoord coord, const RunCoord& p, const State& s) const {
    const int lane = threadIdx.x & 31, warp = warp_of_strip(), warps = config.log_warps;
    const int bits = kLaneRadix * carry.levels;
    Value before_line = Op::identity();
    if (lines.before != nullptr && p.exists) before_line = value_before(source, lines, p.line);
    Value before = before_line;
    if (carry.tiles > 1) before = fold_kept<Op, kLaneRadix>(&kept[0][column()], bits, kLines, coord.tile, before_line);
    // Blocks of warps left of this one, a digit of its number each; behind it a step of the binary counter, as in
    // fold_next.
    Value left[kLogColumnWarps], own = s.of_warp, base = before;
    if constexpr (kIsDear<Op>) __syncwarp(), own = block_of_warps(warp, 0);  // a register less
    const int ones = __ffs(~warp) - 1;                                       // trailing ones
#pragma unroll
    for (int k = 0; k < kLogColumnWarps; k++)
      if (warp >> k & 1) {
        left[k] = block_of_warps(warp >> (k + 1) << (k + 1), k);
        if (k < ones) own = Op::combine(left[k], own);
      }
#pragma unroll
    for (int k = kLogColumnWarps - 1; k >= 0; k--)
      if (warp >> k & 1) {
        before = Op::combine(before, left[k]);
        if (k > ones) base = before;
      }
    const bool is_last = warp + 1 == 1 << warps;
    Around<Op> around{before, {}};
    if (is_last && carry.tiles > 1)
      around.last = fold_next<Op>(&kept[0][column()], bits, kLines, coord.tile, own, before_line);
    else around.last = Op::combine(base, own);
    // The last tile, told by its place: nvcc 13.0 miscompiles coord.tile + 1 == carry.tiles here.
    const bool ends_line = is_last && p.first + int64_t(Run) * runs() >= lines.length;
    if (gives_totals<Value>(lines) && p.exists && ends_line) put_total(p, s, own);
    if (log_lines() < 5) {
#pragma unroll
      for (int k = 4; k >= 0; k--)
        if (!kIsDear<Op> || log_lines() + k < 5) around.before = Op::combine(around.before, s.keep[k]);
      const int below = lane + (1 << log_lines());
      const Value next = shuffle(around.before, below & 31);
      if (below < 32) around.last = next;
    }
    return around;
  }

  // Stores the total of a line of 2^k elements, if this thread has it. own: the block that ends with the last warp; of
  // a line that is shorter than a warp's runs the block left of the first run behind it, or one in the first run.
  __device__ __forceinline__ void put_total(const RunCoord& p, const State& s, Value own) const {
    Value* const to = static_cast<Value*>(lines.totals) + p.line;
    const int run = (threadIdx.x & 31) >> log_lines();
    if (lines.length >= int64_t(Run) * runs()) {
      if (run == 0) *to = own;
    } else if (lines.length >= Run) {
#pragma unroll
      for (int k = 0; k < 5; k++)
        if (run == 1 << k && lines.length == Run << k) *to = s.keep[k];
    } else if (run == 0) {
      const int n = int(lines.length);
      Value total;
      if constexpr (kIsDear<Op>) {
        Value x[Run];
        load_blocks(x, p, s);
        total = first_block(x, n, x[0]);
      } else {
        total = total_in_run<Op, kPart>(s.node, n, [&](Value* x) { load(x, p, 0, 0); });
      }
      *to = total;
    }
  }

  __device__ __forceinline__ void down(TileCoord coord, const State& s) const {
    const RunCoord p = run_coord(coord);
    const Around<Op> around = around_run(coord, p, s);
    Value lo[2 * Parts], hi[2 * Parts], fold[Run];
    lo[1] = around.before, hi[1] = around.last;
    if constexpr (kIsDear<Op>) {
      const bool alone = lines.results <= Run && lines.before == nullptr;  // before such a line nothing stands
      load_blocks(fold, p, s);
      folds_of_first<Op, kLeast>(fold, SoFar<Op>{lo[1], !alone}, hi[1], needed());
    } else {
      tree_down<Op, Parts>(s.node, lo, hi);
    }
    // The fold up to an element is its own result, or that of the next position where exclusive.
    const int shift = lines.exclusive && !packed();
    const int results = p.exists ? within(lines.results - shift - p.start) : 0;
    const auto [outer, inner] = index(p.line);
    const int64_t at = (outer * lines.results + lines.result(p.start + shift)) * lines.inner + inner;
    const int64_t row = lines.reverse ? -lines.inner : lines.inner;
    Result* const output = reinterpret_cast<Result*>(lines.output);
    // Of extremes: what index -1 stands for, and how the others count from the front.
    const int64_t none = IsIndexed<Value>::value && p.exists ? index_before(lines, p.line) : -1;
    const int64_t front = lines.front + lines.element(0);
    const int sign = lines.reverse ? -1 : 1;
    if (shift && p.exists && p.start == 0) {
      output[at - row] = result_of(source, lines.before == nullptr ? empty_value(source) : around.before);
      if constexpr (IsIndexed<Value>::value) lines.indices[at - row] = none;
    }
    char* const to = reinterpret_cast<char*>(output + at);
    int64_t* const indices = IsIndexed<Value>::value ? lines.indices + at : nullptr;
    const Hidden hidden = IsIndexed<Value>::value ? load_hidden(coord) : 0;
    const Offset step_of_results = Offset(row) * int(sizeof(Result));
#pragma unroll
    for (int j = 0; j < Parts; j++) {
      const int there = results - j * kPart;
      if (there <= 0) break;
      Value x[kPart], before = lo[kIsDear<Op> ? 1 : Parts + j];
      if constexpr (kIsDear<Op>) {
        before = part_of(fold, j, before, x);
      } else {
        load(x, p, j, hidden);
        blocks_of_run<Op, kPart>(x);
        folds_of_run<Op, kPart>(x, SoFar<Op>{before, true}, hi[Parts + j]);
      }
      if (packed() && lines.exclusive) {
#pragma unroll
        for (int i = kPart - 1; i > 0; i--) x[i] = x[i - 1];
        x[0] = j == 0 && p.start == 0 && lines.before == nullptr ? empty_value(source) : before;
      }
      if constexpr (IsIndexed<Value>::value)
#pragma unroll
        for (int i = 0; i < kPart; i++)
          if (i < there)
            indices[(j * kPart + i) * Offset(row)] = x[i].index < 0 ? none : front + int64_t(x[i].index) * sign;
      if (packed()) store(x, j);
      else {
        const auto put = [&](int i) {
          *reinterpret_cast<Result*>(to + int64_t(step_of_results) * (j * kPart + i)) = result_of(source, x[i]);
        };
        if (there >= kPart) {
#pragma unroll
          for (int i = 0; i < kPart; i++) put(i);
        } else {
#pragma unroll
          for (int i = 0; i < kPart; i++)
            if (i < there) put(i);
        }
      }
    }
    if (!packed() || p.strip * config.lines >= count) return;
    __syncwarp();
    for (int r = 0; r < runs(); r++) {
      const Rows rows = packed_rows(p, r, lines.results);
      copy_run<false>(lines.output + (p.strip * lines.results + rows.first) * row_bytes(), rows.shared,
                      rows.count * row_bytes());
    }
  }
};

template <class S, int Run, int Width>
__global__ void __launch_bounds__(kColumnThreads, kColumnBlocks<typename S::Op, Width>)
    scan_columns(const __grid_constant__ S source, const __grid_constant__ Lines lines,
                 const __grid_constant__ ColumnConfig config, int64_t count, unsigned work,
                 const __grid_constant__ Carry<kLaneRadix> carry) {
  using Tiles = ColumnTiles<S, Run, Width>;
  __shared__ typename S::Value warp_totals[kBuffers][Tiles::Warps][Tiles::kLines];
  __shared__ typename S::Value kept[kLaneRadix * kMaxLevels][Tiles::kLines];
  Tiles tiles{source, lines, config, carry, count, reinterpret_cast<char*>(memory), warp_totals, kept};
  if constexpr (kTakesSeveral<S>)
    if (gridDim.x < work) return scan_carried(tiles, carry.tile_state, work);
  scan_one(tiles, config.log_warps > 0, carry.tiles > 1, carry.tile_state);
}

}  // namespace torch_reductions::cuda::scan
