// How a warp's part of a tile gets into shared memory and its results out of it: three ways, by how lines lie in memory.
//
// A layout gives: place(), whose line and run a thread has; ask(), which begins to copy gates and tokens in; load(), part j of
// this thread's run; a Writer, which takes the results part by part and ends them. kLogLines: of the lines of a strip, one a
// lane, or -1 where the call decides.
//
// Behind a line's end stand zeros, which come into no result.
#pragma once
#include "../../primitives/async.cuh"
#include "../../primitives/elements.cuh"
#include "../../scan/ordered/lines.cuh"

namespace torch_reductions::cuda {

inline constexpr int kLogLineWarps = 3;
template <class T>
inline constexpr int kStepsOfRun = 64 / int(sizeof(T));
inline constexpr int kStepsOfPart = 8;  // which registers hold

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
  int run_bytes;    // one by one, from run to run in shared memory: the lanes' elements meet different banks
  unsigned groups;  // of strips that a block takes
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

struct Spot {
  unsigned group, tile;
};
struct Place {
  int64_t line, start;  // this thread's, and the position of its run
  bool exists;
  int64_t outer, inner;  // the line's
};

// What layouts share.
template <class T, int LogLines>
struct WarpLayout {
  using Element = T;
  using Value = Step<Native<T>>;
  static constexpr int kLogLines = LogLines, kWarps = 1 << kLogLineWarps;
  static constexpr int kBlocks = sizeof(Native<T>) > 4 ? 2 : LogLines == 5 ? 4 : 3;  // that a multiprocessor holds
  static constexpr int Run = kStepsOfRun<T>, Part = kStepsOfPart, Parts = Run / Part;
  static constexpr int E = 16 / int(sizeof(T)), Vectors = Run / E;  // elements of a vector; vectors of a run

  const RecurrenceLines& lines;
  const Cut& cut;
  char* const memory;  // of a tile: a warp's gates, then its tokens, then the next warp's

  __device__ __forceinline__ static int lane() { return threadIdx.x & 31; }
  __device__ __forceinline__ int log_lines() const { return LogLines < 0 ? cut.log_lines : LogLines; }
  __device__ __forceinline__ int column() const { return lane() & ((1 << log_lines()) - 1); }
  __device__ __forceinline__ bool leads() const { return LogLines == 5 || lane() < 1 << log_lines(); }
  __device__ __forceinline__ int warp_of_strip() const { return (threadIdx.x >> 5) & ((1 << cut.log_warps) - 1); }

  __device__ __forceinline__ Place place(Spot spot) const {
    const int64_t strip = int64_t(spot.group) * (kWarps >> cut.log_warps) + (threadIdx.x >> (5 + cut.log_warps));
    const int64_t line = (strip << log_lines()) + column();
    const int64_t warp = (int64_t(spot.tile) << cut.log_warps) + warp_of_strip();
    const int64_t start = ((warp << (5 - log_lines())) + (lane() >> log_lines())) * Run;
    if (LogLines == 0) return {line, start, line < lines.count, line, 0};
    const int64_t outer = line >> 32 ? line / lines.inner : unsigned(line) / unsigned(lines.inner);
    return {line, start, line < lines.count, outer, line - outer * lines.inner};
  }
  // Elements of the run that are there.
  __device__ __forceinline__ int count_of(const Place& p) const {
    const int64_t left = p.exists ? lines.length - p.start : 0;
    return left <= 0 ? 0 : left < Run ? int(left) : Run;
  }

  // Where a run begins in memory, and how far it is to its next element.
  struct Way {
    int64_t first, step;
  };
  __device__ __forceinline__ Way way(const Place& p, const Strides& strides) const {
    const int64_t first = p.outer * strides.outer + p.inner * strides.inner;
    return lines.reverse ? Way{first + (lines.length - 1 - p.start) * strides.length, -strides.length}
                         : Way{first + p.start * strides.length, strides.length};
  }
  __device__ __forceinline__ Way way_out(const Place& p) const {  // in elements
    return way(p, {lines.length * lines.inner, lines.inner, 1});
  }
  __device__ __forceinline__ static Native<T> read(const char* p) {
    uint32_t words[(sizeof(T) + 3) / 4];
    load_words<sizeof(T)>(words, p);
    return element<T>(words, 0);
  }
  __device__ __forceinline__ static void copy_one(void* to, const void* from) {
    if constexpr (sizeof(T) >= 4) copy_async<sizeof(T)>(to, from);
    else *static_cast<T*>(to) = *static_cast<const T*>(from);
  }

  __device__ __forceinline__ char* gates_of_warp(int bytes) const { return memory + (threadIdx.x >> 5) * 2 * bytes; }
  __device__ __forceinline__ char* tokens_of_warp(int bytes) const { return gates_of_warp(bytes) + bytes; }
};

// 32 lines side by side in vectors of 16 bytes, a row of them after the other; fewer than 2^31 rows, fewer than 2^32 strips.
template <class T>
struct SideBySide : WarpLayout<T, 5> {
  using Base = WarpLayout<T, 5>;
  using Base::lines, Base::cut, Base::Run, Base::Part, Base::lane;
  using typename Base::Value;
  static constexpr int kRow = 32 * int(sizeof(T)), kBytes = Run * kRow;
  static constexpr int kLanes = kRow / 16, kRows = 32 / kLanes;        // a row's lanes; rows that a warp copies at once
  static HOST_DEVICE int bytes_of_warp(const Cut&) { return kBytes; }  // of gates or of tokens

  __device__ __forceinline__ Place place(Spot spot) const {
    const unsigned strip = spot.group * (Base::kWarps >> cut.log_warps) + (threadIdx.x >> (5 + cut.log_warps));
    const unsigned strips = unsigned(lines.inner >> 5), outer = strip / strips;  // of an outer
    const int start = ((int(spot.tile) << cut.log_warps) + Base::warp_of_strip()) * Run;
    const int64_t line = int64_t(strip) * 32 + lane();
    return {line, start, line < lines.count, outer, int64_t(strip - outer * strips) * 32 + lane()};
  }
  __device__ __forceinline__ int count_of(const Place& p) const {
    const int left = int(lines.length) - int(p.start);
    return !p.exists || left <= 0 ? 0 : left < Run ? left : Run;
  }

  __device__ __forceinline__ char* gates() const { return this->gates_of_warp(kBytes); }
  __device__ __forceinline__ char* tokens() const { return this->tokens_of_warp(kBytes); }
  // Of the run's rows a lane moves a vector of each kRows-th, at steps of 512 bytes in shared memory.
  __device__ __forceinline__ static int row() { return lane() / kLanes; }
  __device__ __forceinline__ int64_t first_vector(const Place& p, const Strides& strides) const {
    const int position = int(p.start) + row();
    return int64_t(unsigned(p.outer)) * strides.outer + (p.inner - lane()) * int(sizeof(T)) + lane() % kLanes * 16 +
           (lines.reverse ? int(lines.length) - 1 - position : position) * strides.length;
  }
  template <class Move>
  __device__ __forceinline__ void each_vector(int64_t row_bytes, int count, Move move) const {
    const int64_t step = kRows * (lines.reverse ? -row_bytes : row_bytes);
    int64_t at = 0;
    if (count == Run) {
#pragma unroll
      for (int k = 0; k < Base::Vectors; k++, at += step) move(k * 512, at);
    } else {
#pragma unroll 1
      for (int k = 0; k * kRows + row() < count; k++, at += step) move(k * 512, at);
    }
  }
  __device__ __forceinline__ void copy_in(char* space, const char* data, const Place& p, const Strides& strides,
                                          int count) const {
    const char* const from = data + first_vector(p, strides);
    char* const to = space + lane() * 16;
    each_vector(strides.length, count, [&](int shared, int64_t global) { copy_async(to + shared, from + global); });
#pragma unroll 1
    for (int i = count; i < Run; i++) *reinterpret_cast<T*>(space + i * kRow + lane() * int(sizeof(T))) = T{};
  }
  __device__ __forceinline__ void ask(const Place& p) const {
    const int count = count_of(p);
    copy_in(gates(), lines.gates, p, lines.gate_bytes, count);
    copy_in(tokens(), lines.tokens, p, lines.token_bytes, count);
  }
  __device__ __forceinline__ void load(Value (&x)[Part], int j) const {
    const char* const from = gates() + lane() * int(sizeof(T)) + j * Part * kRow;
#pragma unroll
    for (int i = 0; i < Part; i++) x[i] = {Base::read(from + i * kRow), Base::read(from + kBytes + i * kRow)};
  }

  // Over the tokens, each of which only its own lane reads, and out in vectors.
  struct Writer {
    const SideBySide& layout;
    const Place& p;
    __device__ __forceinline__ void put(const Native<T> (&y)[Part], int j) const {
      char* const to = layout.tokens() + lane() * int(sizeof(T)) + j * Part * kRow;
      T elements[Part];
      narrow(elements, y);
#pragma unroll
      for (int i = 0; i < Part; i++) *reinterpret_cast<T*>(to + i * kRow) = elements[i];
    }
    __device__ __forceinline__ void end() const {
      __syncwarp();
      const int64_t row_bytes = layout.lines.inner * int(sizeof(T));
      char* const to = layout.lines.output + layout.first_vector(p, {layout.lines.length * row_bytes, row_bytes, 0});
      const char* const from = layout.tokens() + lane() * 16;
      layout.each_vector(row_bytes, layout.count_of(p), [&](int shared, int64_t global) {
        *reinterpret_cast<uint4*>(to + global) = *reinterpret_cast<const uint4*>(from + shared);
      });
    }
  };
};

// One contiguous line, a lane a run: the warp's part as it lies, of a reverse recurrence at the end of its space, last position
// first. Behind each run 16 bytes stay free.
template <class T>
struct Along : WarpLayout<T, 0> {
  using Base = WarpLayout<T, 0>;
  using Base::lines, Base::Run, Base::Part, Base::Parts, Base::Vectors, Base::E, Base::lane;
  using typename Base::Value;
  static constexpr int kAll = 32 * Run, kPitch = Run * int(sizeof(T)) + 16, kBytes = 32 * kPitch;
  static HOST_DEVICE int bytes_of_warp(const Cut&) { return kBytes; }

  __device__ __forceinline__ char* gates() const { return this->gates_of_warp(kBytes); }
  __device__ __forceinline__ char* tokens() const { return this->tokens_of_warp(kBytes); }

  struct Piece {
    int64_t first;  // element of the line
    int at, count;  // where it goes in the warp's space, and how many there are
  };
  __device__ __forceinline__ Piece piece(const Place& p) const {
    const int64_t first = p.start - lane() * Run, left = p.exists ? lines.length - first : 0;
    const int n = left <= 0 ? 0 : left < kAll ? int(left) : kAll;
    return {lines.reverse ? lines.length - first - n : first, lines.reverse ? kAll - n : 0, n};
  }
  __device__ __forceinline__ static T* slot(char* space, unsigned i) {
    return reinterpret_cast<T*>(space + i / Run * kPitch) + i % Run;
  }
  __device__ __forceinline__ static bool in_vectors(const void* global, const Piece& piece) {
    const unsigned bytes = unsigned(piece.at | piece.count) * unsigned(sizeof(T));
    return (unsigned(reinterpret_cast<uintptr_t>(global)) | bytes) % 16 == 0;
  }
  __device__ __forceinline__ void copy_in(char* space, const char* line, const Piece& piece) const {
    const T* const from = reinterpret_cast<const T*>(line) + piece.first;
    if (in_vectors(from, piece)) {
      const T* const mine = from + lane() * E;
      if (piece.count == kAll) {
#pragma unroll
        for (int k = 0; k < Vectors; k++) copy_async(slot(space, (lane() + k * 32) * E), mine + k * 32 * E);
        return;
      }
#pragma unroll
      for (int k = 0; k < Vectors; k++)
        if (const int i = (lane() + k * 32) * E; i < piece.count) copy_async(slot(space, piece.at + i), from + i);
    } else {
#pragma unroll 4
      for (int i = lane(); i < piece.count; i += 32) copy_one(slot(space, piece.at + i), from + i);
    }
    for (int i = lane(); i < kAll - piece.count; i += 32) *slot(space, (lines.reverse ? 0 : piece.count) + i) = T{};
  }
  using Base::copy_one;
  __device__ __forceinline__ void ask(const Place& p) const {
    const Piece part = piece(p);
    const int64_t line = p.exists ? p.line : 0;  // of its own outer: inner is 1
    copy_in(gates(), lines.gates + line * lines.gate_bytes.outer, part);
    copy_in(tokens(), lines.tokens + line * lines.token_bytes.outer, part);
  }
  // Elements [0, Part) of part j of this lane's run, in the order of the recurrence.
  __device__ __forceinline__ char* part(char* space, int j) const {
    return space + (lines.reverse ? 31 - lane() : lane()) * kPitch +
           (lines.reverse ? Parts - 1 - j : j) * Part * int(sizeof(T));
  }
  __device__ __forceinline__ void read_part(Native<T> (&x)[Part], char* from) const {
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
  __device__ __forceinline__ void load(Value (&x)[Part], int j) const {
    Native<T> of_gates[Part], of_tokens[Part];
    read_part(of_gates, part(gates(), j)), read_part(of_tokens, part(tokens(), j));
#pragma unroll
    for (int i = 0; i < Part; i++) x[i] = {of_gates[i], of_tokens[i]};
  }

  // Over the tokens, which only this lane reads.
  struct Writer {
    const Along& layout;
    const Place& p;
    __device__ __forceinline__ void put(const Native<T> (&y)[Part], int j) const {
      Native<T> results[Part];  // as they lie
#pragma unroll
      for (int i = 0; i < Part; i++) results[i] = layout.lines.reverse ? y[Part - 1 - i] : y[i];
      T elements[Part];
      narrow(elements, results);
      uint4 vectors[Part / E];
      memcpy(vectors, elements, sizeof vectors);
#pragma unroll
      for (int v = 0; v < Part / E; v++) reinterpret_cast<uint4*>(layout.part(layout.tokens(), j))[v] = vectors[v];
    }
    __device__ __forceinline__ void end() const {
      __syncwarp();
      const Piece piece = layout.piece(p);
      T* const to = reinterpret_cast<T*>(layout.lines.output) + p.line * layout.lines.length + piece.first;
      char* const space = layout.tokens();
      if (in_vectors(to, piece)) {
#pragma unroll
        for (int k = 0; k < Vectors; k++)
          if (const int i = (lane() + k * 32) * E; i < piece.count)
            *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(slot(space, piece.at + i));
      } else {
#pragma unroll 4
        for (int i = lane(); i < piece.count; i += 32) to[i] = *slot(space, piece.at + i);
      }
    }
  };
};

// Any strides: a lane copies and stores its own elements.
template <class T>
struct OneByOne : WarpLayout<T, -1> {
  using Base = WarpLayout<T, -1>;
  using Base::lines, Base::cut, Base::Run, Base::Part, Base::lane;
  using typename Base::Value;

  static HOST_DEVICE int bytes_of_warp(const Cut& cut) { return cut.runs() * cut.run_bytes; }
  __device__ __forceinline__ int row_bytes() const { return int(sizeof(T)) << cut.log_lines; }
  __device__ __forceinline__ char* mine() const {  // gates; the tokens lie behind those of the warp
    return this->gates_of_warp(bytes_of_warp(cut)) + (lane() >> cut.log_lines) * cut.run_bytes +
           this->column() * int(sizeof(T));
  }
  __device__ __forceinline__ void copy_in(char* to, const char* data, const typename Base::Way& way, int count) const {
    const char* from = data + way.first;
    if (count == Run) {
#pragma unroll
      for (int i = 0; i < Run; i++, from += way.step, to += row_bytes()) Base::copy_one(to, from);
    } else {
#pragma unroll 1
      for (int i = 0; i < Run; i++, from += way.step, to += row_bytes()) {
        if (i < count) Base::copy_one(to, from);
        else *reinterpret_cast<T*>(to) = T{};
      }
    }
  }
  __device__ __forceinline__ void ask(const Place& p) const {
    const int count = Base::count_of(p);
    copy_in(mine(), lines.gates, Base::way(p, lines.gate_bytes), count);
    copy_in(mine() + bytes_of_warp(cut), lines.tokens, Base::way(p, lines.token_bytes), count);
  }
  __device__ __forceinline__ void load(Value (&x)[Part], int j) const {
    const char *g = mine() + j * Part * row_bytes(), *t = g + bytes_of_warp(cut);
#pragma unroll
    for (int i = 0; i < Part; i++) x[i] = {Base::read(g + i * row_bytes()), Base::read(t + i * row_bytes())};
  }

  struct Writer {
    const OneByOne& layout;
    const Place& p;
    const typename Base::Way out = layout.way_out(p);
    const int count = layout.count_of(p);
    T* to = reinterpret_cast<T*>(layout.lines.output) + out.first;
    __device__ __forceinline__ void put(const Native<T> (&y)[Part], int j) {
      T elements[Part];
      narrow(elements, y);
#pragma unroll
      for (int i = 0; i < Part; i++, to += out.step)
        if (j * Part + i < count) *to = elements[i];
    }
    __device__ __forceinline__ void end() const {}
  };
};

}  // namespace torch_reductions::cuda
