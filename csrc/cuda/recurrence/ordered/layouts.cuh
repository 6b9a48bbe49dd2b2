// How a warp's part of a tile gets into shared memory and its results out of it: three ways, by how lines lie in
// memory; shifted.cuh is a fourth.
//
// A layout provides: run_coord(), the line and run of a thread; issue_load(), which begins to copy gates and tokens in;
// load(), part j of this thread's run; rows_of(), what load() needs to know of the run; a Writer, which stores the
// results part by part. kLogLines: of the lines of a strip, one per lane, or -1 where the call decides.
//
// After a line's end stand zeros, which enter no result.
#pragma once
#include "../../primitives/async.cuh"
#include "../../primitives/fast_div.cuh"
#include "../../scan/ordered/pipeline.cuh"

namespace torch_reductions::cuda::recurrence {

using namespace scan;  // a recurrence is a scan, of steps

inline constexpr int kLogLineWarps = 3;  // of a block, at most
inline constexpr int kStepsOfPart = 8;   // which registers hold

// Of a reverse recurrence the strides of the length are negative, and the pointers point at the last position; except
// for Contiguous.
struct RecurrenceLines {
  const char *gates, *tokens, *initial;
  char* output;
  int64_t count, length, inner;
  Strides gate_bytes, token_bytes, output_bytes;
  const void *before_gates, *before_tokens;  // as in RecurrenceArgs
  void *total_gates, *total_tokens;

  // A reverse recurrence is one with negative strides.
  void turn_round() {
    const auto turn = [&](auto*& data, Strides& bytes) {
      data += (length - 1) * bytes.length, bytes.length = -bytes.length;
    };
    turn(gates, gate_bytes), turn(tokens, token_bytes), turn(output, output_bytes);
  }
};

inline RecurrenceLines lines_of(const RecurrenceArgs& args, int64_t size) {
  return {.gates = static_cast<const char*>(args.gates),
          .tokens = static_cast<const char*>(args.tokens),
          .initial = static_cast<const char*>(args.initial),
          .output = static_cast<char*>(args.output),
          .count = args.outer * args.inner,
          .length = args.length,
          .inner = args.inner,
          .gate_bytes = in_bytes(args.gate_strides, size),
          .token_bytes = in_bytes(args.token_strides, size),
          .output_bytes = in_bytes({args.length * args.inner, args.inner, 1}, size),
          .before_gates = args.before_gates,
          .before_tokens = args.before_tokens,
          .total_gates = args.total_gates,
          .total_tokens = args.total_tokens};
}

// What came before line `line`; not there in a recurrence that begins here.
template <class Number>
__device__ __forceinline__ SoFar<Linear<Number>> before_line(const RecurrenceLines& lines, int64_t line) {
  if (lines.before_gates == nullptr) return {};
  return {{static_cast<const Number*>(lines.before_gates)[line], static_cast<const Number*>(lines.before_tokens)[line]},
          true};
}

// Of no meaning without initial states.
template <class T>
__device__ __forceinline__ Native<T> initial_state(const RecurrenceLines& lines, int64_t line) {
  return lines.initial != nullptr ? load_native<T>(lines.initial + line * int(sizeof(T))) : Native<T>{};
}

// If the call asks for it.
template <class Number>
__device__ __forceinline__ void put_total(const RecurrenceLines& lines, int64_t line, Step<Number> total) {
  if (lines.total_gates == nullptr) return;
  static_cast<Number*>(lines.total_gates)[line] = total.gate;
  static_cast<Number*>(lines.total_tokens)[line] = total.token;
}

// Strips of 2^log_lines lines, one per lane; 2^log_warps of a block's 2^log_block warps share a strip, the others take
// the next ones.
struct LineConfig {
  int log_lines, log_block, log_warps;
  int run_bytes;  // Strided: from run to run in shared memory, so that the lanes' elements lie in different banks
  // The number of strip groups (a block takes one at a time); lines.inner.
  FastDiv groups, inner;
  HOST_DEVICE int runs() const { return 32 >> log_lines; }  // of a line in a warp
};

// Results as elements: the hardware rounds bfloat16 by pairs.
template <class T, int N>
__device__ __forceinline__ void narrow(T (&to)[N], const Native<T> (&from)[N]) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    uint32_t pairs[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; i++) pairs[i] = bfloat16_pair(from[2 * i], from[2 * i + 1]);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = {uint16_t(pairs[i / 2] >> 16 * (i & 1))};
  } else {
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = narrowed<T>(from[i]);
  }
}

struct RunCoord {
  int64_t line, start;  // this thread's, and the position of its run
  bool exists;
  int64_t outer, inner;  // the line's
  unsigned column;       // where the totals of the line stand among the others
};

// What layouts share. Carried: a line has several tiles, so that all warps of a block share a strip.
template <class T, int LogLines, bool Carried>
struct WarpLayout {
  using Element = T;
  using Number = Native<T>;
  using Value = Step<Number>;
  static constexpr bool kCarried = Carried;
  static constexpr int kLogLines = LogLines, kColumns = LogLines < 0 ? 32 : 1 << LogLines;
  // That a multiprocessor holds.
  static constexpr int kBlocks = !Carried ? (sizeof(T) < 8 ? 4 : 3) : sizeof(Value) > 8 || LogLines < 0 ? 2 : 3;
  static constexpr int Run = 64 / int(sizeof(T)), Part = kStepsOfPart, Parts = Run / Part;

  const RecurrenceLines& lines;
  const LineConfig& config;
  char* memory;  // of a tile: a warp's gates, then its tokens, then the next warp's

  __device__ __forceinline__ static int lane() { return threadIdx.x & 31; }
  __device__ __forceinline__ int log_lines() const { return LogLines < 0 ? config.log_lines : LogLines; }
  __device__ __forceinline__ int column() const { return lane() & ((1 << log_lines()) - 1); }
  __device__ __forceinline__ bool leads() const { return LogLines == 5 || lane() < 1 << log_lines(); }
  __device__ __forceinline__ int warp_of_strip() const {
    return (threadIdx.x >> 5) & (Carried ? ~0 : (1 << config.log_warps) - 1);
  }
  __device__ __forceinline__ unsigned strip(TileCoord coord) const {
    if (Carried) return coord.group;
    return (coord.group << (config.log_block - config.log_warps)) + (threadIdx.x >> (5 + config.log_warps));
  }

  __device__ __forceinline__ RunCoord run_coord(TileCoord coord) const {
    const int64_t line = (int64_t(strip(coord)) << log_lines()) + column();
    const int64_t warp = (int64_t(coord.tile) << config.log_warps) + warp_of_strip();
    const int64_t start = ((warp << (5 - log_lines())) + (lane() >> log_lines())) * Run;
    if (LogLines == 0) return {line, start, line < lines.count, line, 0, unsigned(line)};
    const int64_t outer = config.inner.quotient(line, lines.inner);
    return {line, start, line < lines.count, outer, line - outer * lines.inner, unsigned(line)};
  }

  struct Rows {};  // which lie alike in every run
  __device__ __forceinline__ Rows rows_of(const RunCoord&) const { return {}; }

  __device__ __forceinline__ char* gates_of_warp(int bytes) const { return memory + (threadIdx.x >> 5) * 2 * bytes; }
  __device__ __forceinline__ char* tokens_of_warp(int bytes) const { return gates_of_warp(bytes) + bytes; }
};

// Lines side by side in vectors of 16 bytes, a row of them after the other. 32 bits count the lines, the steps of a
// line, and the bytes between the rows of a run.
template <class T, bool Carried>
struct SideBySide : WarpLayout<T, 5, Carried> {
  using Base = WarpLayout<T, 5, Carried>;
  using Base::lines, Base::config, Base::Run, Base::Part, Base::lane;
  using typename Base::Number;
  using typename Base::Rows;
  using typename Base::Value;
  static constexpr int kRow = 32 * int(sizeof(T)), kBytes = Run * kRow;
  static constexpr int kLanes = kRow / 16, kRows = 32 / kLanes;  // a row's lanes; rows that a warp copies at once
  static HOST_DEVICE int bytes_of_warp(const LineConfig&) { return kBytes; }  // of gates or of tokens

  // For a line beyond the last one, outer and inner are those of no line.
  __device__ __forceinline__ RunCoord run_coord_of(unsigned line, TileCoord coord) const {
    const unsigned outer = config.inner.div(line), inner = line - outer * config.inner.divisor;
    const int start = ((int(coord.tile) << config.log_warps) + Base::warp_of_strip()) * Run;
    return {line, start, line < unsigned(lines.count), outer, inner, line};
  }
  __device__ __forceinline__ RunCoord run_coord(TileCoord coord) const {
    return run_coord_of(Base::strip(coord) * 32 + lane(), coord);
  }
  // Elements of the run that are there, and where a position of the line stands in memory.
  __device__ __forceinline__ int count_of(const RunCoord& p) const {
    const int left = int(lines.length) - int(p.start);
    return !p.exists || left < 0 ? 0 : left < Run ? left : Run;
  }
  __device__ __forceinline__ int64_t at(const RunCoord& p, int position, const Strides& strides) const {
    return unsigned(p.outer) * strides.outer + unsigned(p.inner) * sizeof(T) + int64_t(position) * int(strides.length);
  }

  __device__ __forceinline__ char* gates() const { return this->gates_of_warp(kBytes); }
  // Prefetches into the L2 what issue_load will copy, one row per lane. Rows of half a cache line would be fetched
  // twice.
  __device__ __forceinline__ void prefetch(TileCoord coord) const {
    if constexpr (kRow < 128) return;
    const RunCoord p = run_coord_of(Base::strip(coord) * 32, coord);
    const int there = count_of(p);
    for (int i = lane(); i < 2 * Run; i += 32) {
      const Strides& strides = i < Run ? lines.gate_bytes : lines.token_bytes;
      if (i % Run < there)
        prefetch_to_l2((i < Run ? lines.gates : lines.tokens) + at(p, int(p.start) + i % Run, strides));
    }
  }
  // Of the run's rows a lane copies a vector of each kRows-th, at steps of 512 bytes in shared memory.
  __device__ __forceinline__ void issue_load(TileCoord coord) const {
    constexpr int kVectors = Run / kRows;
    const int row = lane() / kLanes;
    const RunCoord p = run_coord_of(Base::strip(coord) * 32 + lane() % kLanes * int(16 / sizeof(T)), coord);
    const int there = count_of(p) - row;
    char* const to = opaque(gates() + lane() * 16);
    const auto copy_in = [&](const char* data, const Strides& strides, int space) {
      const char* const from = opaque(data + at(p, int(p.start) + row, strides));
      const int step = kRows * int(strides.length);
#pragma unroll
      for (int k = 0; k < kVectors; k++)
        if (k * kRows < there) cp_async(to + space + k * 512, from + int64_t(step) * k);
    };
    copy_in(lines.gates, lines.gate_bytes, 0);
    copy_in(lines.tokens, lines.token_bytes, kBytes);
    T* const own = reinterpret_cast<T*>(gates()) + lane();
#pragma unroll 1
    for (int i = count_of(run_coord(coord)); i < Run; i++) own[i * 32] = own[(Run + i) * 32] = {};
  }
  __device__ __forceinline__ void load(Value (&x)[Part], Rows, int j) const {
    const char* const from = gates() + lane() * int(sizeof(T)) + j * Part * kRow;
#pragma unroll
    for (int i = 0; i < Part; i++) x[i] = {load_native<T>(from + i * kRow), load_native<T>(from + kBytes + i * kRow)};
  }

  // A lane stores its own results, a row at a time with the others.
  struct Writer {
    int there, step;
    char* to;
    __device__ __forceinline__ Writer(const SideBySide& layout, const RunCoord& p) {
      const Strides& strides = layout.lines.output_bytes;
      there = layout.count_of(p), step = int(strides.length);
      to = opaque(layout.lines.output + layout.at(p, int(p.start), strides));
    }
    __device__ __forceinline__ void put(const Number (&y)[Part], int j) const {
      T elements[Part];
      narrow(elements, y);
      const auto put_one = [&](int i) {
        *reinterpret_cast<T*>(opaque(to) + int64_t(step) * (j * Part + i)) = elements[i];
      };
      if (there >= (j + 1) * Part) {
#pragma unroll
        for (int i = 0; i < Part; i++) put_one(i);
      } else {
#pragma unroll
        for (int i = 0; i < Part; i++)
          if (j * Part + i < there) put_one(i);
      }
    }
    __device__ __forceinline__ void end() const {}
  };
};

// One contiguous line, one lane per run: the warp's part as it lies, in a reverse recurrence at the end of its space,
// last position first. The vectors of a run are permuted, so that those of the lanes lie in different banks.
template <class T, bool Carried, bool Reverse>
struct Contiguous : WarpLayout<T, 0, Carried> {
  using Base = WarpLayout<T, 0, Carried>;
  using Base::lines, Base::Run, Base::Part, Base::lane;
  using typename Base::Number;
  using typename Base::Rows;
  using typename Base::Value;
  static constexpr int E = 16 / int(sizeof(T)), Vectors = Run / E;  // elements of a vector; vectors of a run
  static constexpr int kAll = 32 * Run, kBytes = 32 * 64;
  static_assert(Vectors == 4);
  static HOST_DEVICE int bytes_of_warp(const LineConfig&) { return kBytes; }

  __device__ __forceinline__ char* gates() const { return this->gates_of_warp(kBytes); }
  __device__ __forceinline__ char* tokens() const { return this->tokens_of_warp(kBytes); }

  struct Piece {
    int64_t first;  // element of the line
    int at, count;  // where it goes in the warp's space, and how many there are
  };
  __device__ __forceinline__ Piece piece(const RunCoord& p) const {
    const int64_t first = p.start - lane() * Run, left = p.exists ? lines.length - first : 0;
    const int n = left <= 0 ? 0 : left < kAll ? int(left) : kAll;
    return {Reverse ? lines.length - first - n : first, Reverse ? kAll - n : 0, n};
  }
  // Element i of the part as it lies. 32 vectors further on stands what is 512 bytes further on.
  __device__ __forceinline__ static T* slot(char* space, unsigned i) {
    const unsigned v = i / E;
    return reinterpret_cast<T*>(space + (v ^ (v / 8 & 3)) * 16) + i % E;
  }
  __device__ __forceinline__ static bool in_vectors(const void* global, const Piece& piece) {
    const unsigned bytes = unsigned(piece.at | piece.count) * unsigned(sizeof(T));
    return (unsigned(reinterpret_cast<uintptr_t>(global)) | bytes) % 16 == 0;
  }
  // move(shared, k): this lane's vectors of the part, every 32nd.
  template <class Move>
  __device__ __forceinline__ static void for_each_vector(char* space, const Piece& piece, Move move) {
    char* const mine = reinterpret_cast<char*>(slot(space, piece.at + lane() * E));
#pragma unroll
    for (int k = 0; k < Vectors; k++)
      if ((lane() + k * 32) * E < piece.count) move(mine + k * 512, k * 32);
  }
  __device__ __forceinline__ void copy_in(char* space, const char* line, const Piece& piece) const {
    const T* const from = reinterpret_cast<const T*>(line) + piece.first;
    if (in_vectors(from, piece)) {
      const uint4* const mine = reinterpret_cast<const uint4*>(from) + lane();
      for_each_vector(space, piece, [&](char* to, int v) { cp_async(to, mine + v); });
    } else {
#pragma unroll 4
      for (int i = lane(); i < piece.count; i += 32) copy_one<T>(slot(space, piece.at + i), from + i);
    }
    for (int i = lane(); i < kAll - piece.count; i += 32) *slot(space, (Reverse ? 0 : piece.count) + i) = T{};
  }
  __device__ __forceinline__ void issue_load(TileCoord coord) const {
    const RunCoord p = Base::run_coord(coord);
    const Piece part = piece(p);
    const int64_t line = p.exists ? p.line : 0;  // of its own outer: inner is 1
    copy_in(gates(), lines.gates + line * lines.gate_bytes.outer, part);
    copy_in(tokens(), lines.tokens + line * lines.token_bytes.outer, part);
  }
  // Vector v of this lane's run, in the order of the recurrence.
  __device__ __forceinline__ uint4* vector(char* space, int v) const {
    const int run = Reverse ? 31 - lane() : lane(), swap = (run / 2 & 3) ^ (Reverse ? 3 : 0);
    return reinterpret_cast<uint4*>(space) + run * Vectors + (v ^ swap);
  }
  __device__ __forceinline__ void load(Value (&x)[Part], Rows, int j) const {
#pragma unroll
    for (int v = 0; v < Part / E; v++) {
      uint32_t gate[4], token[4];
      load_words<16>(gate, vector(gates(), j * (Part / E) + v));
      load_words<16>(token, vector(tokens(), j * (Part / E) + v));
      if constexpr (Reverse) mirror<sizeof(T)>(gate), mirror<sizeof(T)>(token);
#pragma unroll
      for (int i = 0; i < E; i++) x[v * E + i] = {element<T>(gate, i), element<T>(token, i)};
    }
  }

  // Over the tokens, which only this lane reads.
  struct Writer {
    const Contiguous& layout;
    const RunCoord& p;
    __device__ __forceinline__ void put(const Number (&y)[Part], int j) const {
      T elements[Part];
      narrow(elements, y);
#pragma unroll
      for (int v = 0; v < Part / E; v++) {
        uint32_t words[4];
        memcpy(words, elements + v * E, 16);
        if constexpr (Reverse) mirror<sizeof(T)>(words);
        *layout.vector(layout.tokens(), j * (Part / E) + v) = {words[0], words[1], words[2], words[3]};
      }
    }
    __device__ __forceinline__ void end() const {
      __syncwarp();
      const Piece piece = layout.piece(p);
      T* const to = reinterpret_cast<T*>(layout.lines.output) + p.line * layout.lines.length + piece.first;
      char* const space = layout.tokens();
      if (in_vectors(to, piece)) {
        uint4* const mine = reinterpret_cast<uint4*>(to) + lane();
        for_each_vector(space, piece, [&](char* from, int v) { mine[v] = *reinterpret_cast<const uint4*>(from); });
      } else {
#pragma unroll 4
        for (int i = lane(); i < piece.count; i += 32) to[i] = *slot(space, piece.at + i);
      }
    }
  };
};

// Any strides: a lane copies and stores its own elements.
template <class T, bool Carried>
struct Strided : WarpLayout<T, -1, Carried> {
  using Base = WarpLayout<T, -1, Carried>;
  using Base::lines, Base::config, Base::Run, Base::Part, Base::lane;
  using typename Base::Number;
  using typename Base::Rows;
  using typename Base::Value;

  static HOST_DEVICE int bytes_of_warp(const LineConfig& config) { return config.runs() * config.run_bytes; }
  // As in SideBySide.
  __device__ __forceinline__ int count_of(const RunCoord& p) const {
    if (!p.exists) return 0;
    const int64_t left = lines.length - p.start;
    return left <= 0 ? 0 : left < Run ? int(left) : Run;
  }
  __device__ __forceinline__ int64_t at(const RunCoord& p, int64_t position, const Strides& strides) const {
    return p.outer * strides.outer + p.inner * strides.inner + position * strides.length;
  }
  __device__ __forceinline__ int row_bytes() const { return int(sizeof(T)) << config.log_lines; }
  __device__ __forceinline__ char* mine() const {  // gates; the tokens lie behind those of the warp
    return this->gates_of_warp(bytes_of_warp(config)) + (lane() >> config.log_lines) * config.run_bytes +
           this->column() * int(sizeof(T));
  }
  __device__ __forceinline__ void copy_in(char* to, const char* from, int64_t step, int count) const {
    if (count == Run) {
#pragma unroll 8
      for (int i = 0; i < Run; i++, from += step, to += row_bytes()) copy_one<T>(to, from);
    } else {
#pragma unroll 1
      for (int i = 0; i < Run; i++, from += step, to += row_bytes()) {
        if (i < count) copy_one<T>(to, from);
        else *reinterpret_cast<T*>(to) = T{};
      }
    }
  }
  __device__ __forceinline__ void issue_load(TileCoord coord) const {
    const RunCoord p = Base::run_coord(coord);
    const int count = count_of(p);
    const auto of = [&](const char* data, const Strides& strides, int space) {
      copy_in(mine() + space, data + at(p, p.start, strides), strides.length, count);
    };
    of(lines.gates, lines.gate_bytes, 0), of(lines.tokens, lines.token_bytes, bytes_of_warp(config));
  }
  __device__ __forceinline__ void load(Value (&x)[Part], Rows, int j) const {
    const char *g = mine() + j * Part * row_bytes(), *t = g + bytes_of_warp(config);
#pragma unroll
    for (int i = 0; i < Part; i++) x[i] = {load_native<T>(g + i * row_bytes()), load_native<T>(t + i * row_bytes())};
  }

  struct Writer {
    int there;
    int64_t step;
    char* to;
    __device__ __forceinline__ Writer(const Strided& layout, const RunCoord& p)
        : there(layout.count_of(p)),
          step(layout.lines.output_bytes.length),
          to(layout.lines.output + layout.at(p, p.start, layout.lines.output_bytes)) {}
    __device__ __forceinline__ void put(const Number (&y)[Part], int j) {
      T elements[Part];
      narrow(elements, y);
#pragma unroll
      for (int i = 0; i < Part; i++, to += step)
        if (j * Part + i < there) *reinterpret_cast<T*>(to) = elements[i];
    }
    __device__ __forceinline__ void end() const {}
  };
};

}  // namespace torch_reductions::cuda::recurrence
