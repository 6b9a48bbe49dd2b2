// Lines that are contiguous: a warp copies its part of a tile into shared memory, scans it there in place, and copies
// it out.
//
// A thread scans a run of kVectors neighbouring vectors of 16 bytes. After each run one vector stays free, so that the
// lanes of a warp, whose runs lie side by side, access different banks. Where to combine is dear, a run stays in
// registers, so that nothing is combined twice; and it may be shorter, for more threads to share little work.
//
// Local:   scan_rows (128 bytes): of bytes, 64-bit products, values of 16 bytes and what goes on, so that two blocks or
//          three fit
#pragma once
#include "../../primitives/shared.cuh"
#include "lines.cuh"
#include "mask.cuh"
#include "pipeline.cuh"
#include "tree.cuh"

namespace torch_reductions::cuda::scan {

inline constexpr int kRowThreads = 256, kLogRowWarps = 3;
inline constexpr int kRowRadix = 5;

template <class S, class Value = typename S::Value>
inline constexpr int kVectors = kIsDear<typename S::Op>                          ? kDearRun<Value> / S::E
                                : sizeof(Value) <= 8 && !IsIndexed<Value>::value ? 8
                                                                                 : 4;

// Bytes of shared memory that a thread takes: of each tile, and before the tiles for the indices of the one whose
// results are stored, in the order of its elements; behind each run's one stays free.
template <class S>
inline constexpr int kRowBytes = 16 * (kVectors<S> + 1);
template <class S>
inline constexpr int kIndexBytes = [] {
  using Value = typename S::Value;
  if constexpr (IsIndexed<Value>::value) return (kVectors<S> * S::E + 1) * int(sizeof(Value::index));
  else return 0;
}();

// Blocks that a multiprocessor holds: enough for some to compute while others wait.
template <class Op, class Value = typename Op::Value>
inline constexpr int kRowBlocks = kIsDear<Op>          ? (sizeof(Value) == 4 ? 4 : 2)
                                  : sizeof(Value) <= 8 ? 3
                                                       : 2;

// The direction, where it is a compile-time constant: two kernels in place of one, without a selection for each
// element.
enum class Direction { either, forward, backward };
template <class Op>
inline constexpr bool kTwoWays = sizeof(typename Op::Value) == 4 && kIsNone<Op, LogAdd>;

// A line of several tiles: a block takes one after the other. Shorter ones: 2^log_threads threads per line, several
// lines per block.
//
// Shared memory is zero after a line's end. The zeros enter no result: a result is made of blocks that end at its own
// position or before.
//
// Continued: what came before a line may be given, and its total may be asked for. For others, that would take
// registers that they do not have.
template <class S, Direction direction, bool Continued>
struct RowTiles {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using T = typename S::Element;
  using Result = typename ResultOf<S>::type;
  static constexpr int E = S::E, Vectors = kVectors<S>, Run = Vectors * E, Warps = 1 << kLogRowWarps;
  static constexpr int kPitch = Vectors + 1;  // of runs, in vectors

  const S& source;
  const Lines& lines;
  const Carry<kRowRadix>& carry;
  const int64_t count;
  const int log_threads, log_run;
  char* const space;
  Value (&warp_totals)[kBuffers][Warps];
  Value (&kept)[kRowRadix * kMaxLevels];
  // Threads of a line that lie in one warp, and this one's number among them: they copy the part of the line, of `all`
  // positions, that only they scan.
  const int lanes = 1 << (log_threads < 5 ? log_threads : 5), q = threadIdx.x & (lanes - 1), all = lanes * run();
  // The elements of a thread's run.
  __device__ __forceinline__ int run() const { return kIsDear<Op> ? 1 << log_run : Run; }
  // What belongs to the tile in use.
  uint4* memory = tile_memory(0);
  Value* warp_total = warp_totals[0];

  __device__ __forceinline__ uint4* tile_memory(unsigned n) const {
    return reinterpret_cast<uint4*>(space + (kIndexBytes<S> + n * kRowBytes<S>)*blockDim.x);
  }
  __device__ __forceinline__ void use(unsigned n) {
    memory = tile_memory(n % kBuffers);
    warp_total = warp_totals[n % kBuffers];
  }

  __device__ __forceinline__ bool reverse() const {
    return direction == Direction::either ? lines.reverse : direction == Direction::backward;
  }

  struct PartCoord {
    int64_t line, first;    // the position of the first element of this warp's part
    int elements, results;  // of the line's that lie in it
  };
  __device__ __forceinline__ TileCoord coord(unsigned number) const {
    if (carry.tiles == 1) return {number, 0};
    const unsigned group = number / carry.tiles;
    return {group, number - group * carry.tiles};
  }
  __device__ __forceinline__ PartCoord part_coord(TileCoord coord) const {
    const int64_t line = int64_t(coord.group) * (blockDim.x >> log_threads) + (threadIdx.x >> log_threads);
    const unsigned thread = threadIdx.x & ((1 << log_threads) - 1) & ~31;
    const int64_t first = ((int64_t(coord.tile) << log_threads) + thread) * run();
    const auto within = [&](int64_t n) {
      return line >= count || n < first ? 0 : n - first < all ? int(n - first) : all;
    };
    return {line, first, within(lines.length), within(lines.results)};
  }

  // Element i of this part of the line, in the order of memory, or result i. Elements that are narrower than results
  // lie where a run's last results will be stored: each is read before.
  static constexpr int kNarrower = Run * int(sizeof(Result) - sizeof(T));  // in bytes
  template <class X = T>
  __device__ __forceinline__ X* element(unsigned i) const {
    const int gap = kPitch * 16 / int(sizeof(X)) - run();  // from run to run
    const int begin = std::is_same_v<X, Result> || reverse() ? 0 : kNarrower;
    return reinterpret_cast<X*>(reinterpret_cast<char*>(memory + (threadIdx.x - q) * kPitch) + begin) + i +
           (kIsDear<Op> ? i >> log_run : i / Run) * gap;
  }
  __device__ __forceinline__ auto* index_slot(int i) const {
    using Index = decltype(Value::index);
    return reinterpret_cast<Index*>(space) + (threadIdx.x - q) * (Run + 1) + i + i / Run;
  }
  // Are these `count` elements, the first of which stands at element(at), whole vectors on both sides?
  template <class X>
  __device__ __forceinline__ static bool in_vectors(const X* global, int at, int count) {
    const unsigned bytes = unsigned(at | count) * unsigned(sizeof(X));
    return (unsigned(reinterpret_cast<uintptr_t>(global)) | bytes) % 16 == 0;
  }
  // body(shared, i) for this lane's share of n elements, U at a time, the i-th of which stands at element(at + i);
  // those of a whole warp lie at constant distances.
  template <class X, int U, class Body>
  __device__ __forceinline__ void for_each(int at, int n, Body body) const {
    if (lanes == 32 && run() == Run) {
      constexpr int kStep = Run < 32 * U ? 32 * U : Run, kUnroll = U > 1 ? Vectors : 8;
#pragma unroll
      for (int m = 0; m < kStep; m += 32 * U) {
        X* const mine = element<X>(at + q * U + m);
#pragma unroll kUnroll
        for (int k = 0; k < 32 * Run / kStep; k++)
          if (const int i = q * U + m + k * kStep; i < n)
            body(mine + k * (kStep / Run * kPitch * 16 / int(sizeof(X))), i);
      }
    } else {
      constexpr int kUnroll = U > 1 ? 1 : 4;
#pragma unroll kUnroll
      for (int i = q * U; i < n; i += lanes * U) body(element<X>(at + i), i);
    }
  }

  // Where the part's `elements` lie: in memory, and from element(at) on. Of a reverse scan they lie at the end of their
  // space, the last position first.
  struct Share {
    const T* from;
    int at;
  };
  __device__ __forceinline__ Share share(const PartCoord& p) const {
    const T* const line = reinterpret_cast<const T*>(lines.input + p.line * lines.outer_bytes);
    return reverse() ? Share{line + lines.length - p.first - p.elements, all - p.elements} : Share{line + p.first, 0};
  }
  __device__ __forceinline__ void issue_load(TileCoord coord) const {
    const PartCoord p = part_coord(coord);
    const auto [from, at] = share(p);
    const int n = p.elements, shift = shift_of(from, at), behind = reverse() ? 0 : n;
    const bool is_whole = in_vectors(from, at, n), all_whole = !kShifts || __all_sync(kFullWarp, is_whole);
    if (!all_whole) {  // vectors of which only a part is copied
      *my_run() = my_run()[run() / E] = uint4{};
      __syncwarp();
    }
#pragma unroll 1
    for (int i = q; i < all - n; i += lanes) element(behind + i)[shift] = T{};
    if (!all_whole) __syncwarp();
    if (is_whole) for_each<T, 16 / sizeof(T)>(at, n, [&](T* to, int i) { cp_async(to, from + i); });
    else if constexpr (kShifts) issue_vectors(from, at, n);
    else for_each<T, 1>(at, n, [&](T* to, int i) { cp_async<sizeof(T)>(to, from + i); });
  }

  // Elements of less than a word are copied in the vectors of memory that hold them. If source and destination are
  // aligned differently, a run is stored `shift` elements late; the vector that straddles two runs is stored with both.
  static constexpr bool kShifts = sizeof(T) < 4;
  __device__ __forceinline__ static int lead_of(const T* global) {  // elements before it in its vector
    return int(reinterpret_cast<uintptr_t>(global) & 15) / int(sizeof(T));
  }
  __device__ __forceinline__ static int shift_of(const T* global, int at) {
    return kShifts ? (lead_of(global) - at) & (E - 1) : 0;
  }
  __device__ __forceinline__ static int head_of(const T* global) { return -lead_of(global) & (E - 1); }

  __device__ __forceinline__ void issue_vectors(const T* from, int at, int n) const {
    const int lead = lead_of(from), head = head_of(from), shift = shift_of(from, at);
    if (q == 0 && lead > 0 && n > 0) cp_async(element(at) + shift - lead, from - lead);
    for_each<T, E>(at + head, n - head, [&](T* to, int i) { cp_async(to + shift, from + head + i); });
    const int i = q * run() - shift - at;
    if (shift > 0 && q * run() > at && i < n) cp_async(element(q * run()), from + i);
  }
  __device__ __forceinline__ void store_vectors(T* to, int at, int n) const {
    const int shift = shift_of(to, at), head = n < head_of(to) ? n : head_of(to), tail = (n - head) & (E - 1);
    for (int i = q; i < head; i += lanes) to[i] = element(at + i)[shift];
    for (int i = q; i < tail; i += lanes) to[n - tail + i] = element(at + n - tail + i)[shift];
    for_each<T, E>(at + head, n - head - tail, [&](const T* from, int i) {
      *reinterpret_cast<uint4*>(to + head + i) = *reinterpret_cast<const uint4*>(from + shift);
    });
  }

  // This thread's run, in the order of memory.
  __device__ __forceinline__ uint4* my_run() const {
    return memory + (threadIdx.x - q + (reverse() ? lanes - 1 - q : q)) * kPitch;
  }
  // Where its elements lie.
  __device__ __forceinline__ char* narrow_run() const {
    return reinterpret_cast<char*>(my_run()) + (reverse() ? 0 : kNarrower);
  }
  // The 16 bytes that begin `bytes` into those of both.
  __device__ __forceinline__ static uint4 between(const uint4& a, const uint4& b, int bytes) {
    uint32_t words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    realign<true>(words, bytes);
    return {words[0], words[1], words[2], words[3]};
  }
  // Moves this thread's run to its place, and back.
  __device__ __forceinline__ void shift_back(int shift) const {
    uint4* const run = my_run();
    uint4 now = *run;
#pragma unroll
    for (int j = 0; j < Vectors; j++) {
      if (!has(j)) break;
      const uint4 next = run[j + 1];
      run[j] = between(now, next, shift * int(sizeof(T)));
      now = next;
    }
  }
  __device__ __forceinline__ void shift_on(int shift, const uint4& first_behind) const {
    uint4* const run = my_run();
    uint4 last{};
#pragma unroll
    for (int j = 0; j <= Vectors; j++) {
      if (j > 0 && !has(j - 1)) break;
      const uint4 now = j < Vectors && has(j) ? run[j] : first_behind;
      run[j] = between(last, now, 16 - shift * int(sizeof(T)));
      last = now;
    }
  }

  // The masked elements of this thread's run, in the order of memory.
  static constexpr int kBits = Run < 64 ? Run : 64;
  struct Hidden {
    std::conditional_t<kBits <= 32, uint32_t, uint64_t> bits[Run / kBits];
  };
  __device__ __forceinline__ Hidden load_hidden(TileCoord coord) const {
    Hidden hidden{};
    if (!masks<Value>(lines)) return hidden;
    const PartCoord p = part_coord(coord);
    const int64_t step = lines.mask.strides.length;
#pragma unroll
    for (int k = 0; k < Run / kBits; k++) {
      const int bits = run() < kBits ? run() : kBits;
      const int start = q * run() + (reverse() ? run() - (k + 1) * bits : k * bits), more = p.elements - start;
      const int n = more < 0 ? 0 : more < bits ? more : bits;
      const uint8_t* const shown = lines.mask.at(p.line, lines.element(p.first + start) - (reverse() ? n - 1 : 0), 0);
      if (n > 0)
        hidden.bits[k] = (step == 1 && in_whole_vectors(lines, shown, n) ? hidden_neighbours<kBits>(shown, n)
                                                                         : hidden_bits<uint64_t>(shown, step, n))
                         << (reverse() ? bits - n : 0);
    }
    return hidden;
  }
  // Of an extreme: those in the order of the scan, the only ones that load() reads.
  __device__ __forceinline__ uint64_t in_order(const Hidden& hidden) const {
    if (!IsIndexed<Value>::value || !reverse()) return hidden.bits[0];
    const uint64_t bits = hidden.bits[0];
    return (uint64_t(__brev(uint32_t(bits))) << 32 | __brev(uint32_t(bits >> 32))) >> (64 - kBits);
  }
  // Stores the identity over them in shared memory.
  __device__ __forceinline__ void hide(const Hidden& hidden) const {
    constexpr int kOfVector = 16 / sizeof(T);
    const T put = hidden_element(source);
    uint4* const run = reinterpret_cast<uint4*>(narrow_run());
#pragma unroll
    for (int j = 0; j < Run / kOfVector; j++) {
      if (j * kOfVector >= this->run()) break;
      T elements[kOfVector];
      memcpy(elements, run + j, 16);
#pragma unroll
      for (int i = 0; i < kOfVector; i++) {
        const int at = j * kOfVector + i;
        if (hidden.bits[at / kBits] >> at % kBits & 1) elements[i] = put;
      }
      memcpy(run + j, elements, 16);
    }
  }

  // Is there such a vector in any run?
  __device__ __forceinline__ bool has(int j) const { return j * E < run(); }
  // This thread's vector j in the order of the scan, and its values.
  __device__ __forceinline__ int vector(int j) const { return reverse() ? run() / E - 1 - j : j; }
  __device__ __forceinline__ uint4* run_vector(int j) const { return my_run() + vector(j); }
  __device__ __forceinline__ void load(Value* x, const PartCoord& p, int j, uint64_t hidden) const {
    constexpr int kBytes = E * int(sizeof(T));
    uint32_t words[4];
    load_words<kBytes>(reinterpret_cast<uint32_t (&)[kBytes / 4]>(words), narrow_run() + vector(j) * kBytes);
    if (reverse()) {
      if constexpr (kBytes == 16) mirror<sizeof(T)>(words);
      else words[2] = words[0], words[0] = words[1], words[1] = words[2];
    }
#pragma unroll
    for (int i = 0; i < E; i++) {
      x[i] = source.value(words, i, p.first + q * run() + j * E + i);
      if constexpr (IsIndexed<Value>::value) clear_index(x[i], hidden >> (j * E + i) & 1);
    }
  }

  // The blocks that end at its elements.
  __device__ __forceinline__ void load_blocks(Value (&x)[E], const PartCoord& p, int j, uint64_t hidden) const {
    load(x, p, j, hidden);
    blocks_of_run<Op, E>(x);
  }
  __device__ __forceinline__ void store(const Value (&x)[E], int j) const {
    uint32_t words[4];
    if constexpr (kWidens<S>) memcpy(words, x, 16);
    else pack(words, source, x);
    if (reverse()) mirror<sizeof(Result)>(words);
    *run_vector(j) = {words[0], words[1], words[2], words[3]};
  }

  __device__ __forceinline__ int log_warps() const { return log_threads > 5 ? log_threads - 5 : 0; }

  // node[Vectors + j]: vector j of the run; node[1]: all of it. Where to combine is dear, the blocks that end at its
  // elements. keep[k]: the block of 2^k threads left of this one's.
  struct State {
    Value node[kIsDear<Op> ? Run : 2 * Vectors], keep[5], of_warp;
  };
  __device__ __forceinline__ State up(TileCoord coord, const Hidden& hidden) const {
    const PartCoord p = part_coord(coord);
    if constexpr (kShifts) {
      const auto [from, at] = share(p);
      if (const int shift = shift_of(from, at); shift > 0) shift_back(shift);
    }
    State s;
    if (masks<Value>(lines)) hide(hidden);
    if constexpr (kIsDear<Op>) {
#pragma unroll
      for (int j = 0; j < Vectors; j++)
        if (has(j)) load(s.node + j * E, p, j, 0);
      s.of_warp = blocks_of_first<Op, E>(s.node, run());
    } else {
#pragma unroll
      for (int j = 0; j < Vectors; j++) {
        Value x[E];
        load_blocks(x, p, j, in_order(hidden));
        s.node[Vectors + j] = x[E - 1];
      }
      tree_up<Op, Vectors>(s.node);
      s.of_warp = s.node[1];
    }
    const int lane = threadIdx.x & 31;
    left_blocks<Op>(s.of_warp, s.keep, 0, log_threads, lane);
    if (lane == 0) warp_total[threadIdx.x >> 5] = s.of_warp;
    return s;
  }

  // By the last warp.
  __device__ __forceinline__ void publish(TileCoord coord, unsigned tag) const {
    if (threadIdx.x + 32 < blockDim.x) return;
    const int lane = threadIdx.x & 31;
    Value v = warp_total[lane & ((1 << log_warps()) - 1)];  // in every lane: the last one's is used below
#pragma unroll
    for (int k = 0; k < kLogRowWarps; k++)
      if (k < log_warps()) v = xor_step<Op>(v, k, lane);
    const LineTotals<kRowRadix, Value> line{carry, coord.group, tag};
    publish_totals<kRowRadix, total_by_warp<Op, kRowRadix>>(line, coord.tile, v, lane == 0);
  }

  __device__ __forceinline__ void look_back(TileCoord coord, unsigned tag) const {
    look_back_by_warp<Op, kRowRadix>(LineTotals<kRowRadix, Value>{carry, coord.group, tag}, coord.tile, kept);
  }

  // Of this warp's part of the line.
  __device__ __forceinline__ Around<Op> around_warp(TileCoord coord, const PartCoord& p, const State& s) const {
    const int lane = threadIdx.x & 31, warps = log_warps(), warp = (threadIdx.x >> 5) & ((1 << warps) - 1);
    const Value before = before_line(p);
    if (warps == 0) {
      if (asks_total() && q == 0) put_total(p, lines.length < run() ? total_of_run(p, s) : s.of_warp);
      return {before, has_before() ? Op::combine(before, s.of_warp) : s.of_warp};
    }
    // Lane w holds warp w; then what stands before it. Behind the last one stands the fold of them all. Where to
    // combine is dear, a line's first warp does that for the others.
    const int first = (threadIdx.x >> 5) - warp, bits = kRowRadix * carry.levels;
    Around<Op> around;
    if (!kIsDear<Op> || warp == 0) {
      Value v = lane < 1 << warps ? warp_total[first + lane] : Op::identity(), keep[kLogRowWarps + 1];
      left_blocks<Op>(v, keep, 0, warps + 1, lane);
      const Value all_warps = v;
      v = carry.tiles > 1 ? fold_kept<Op, kRowRadix>(kept, bits, 1, coord.tile, before) : before;
#pragma unroll
      for (int k = kLogRowWarps; k >= 0; k--)
        if (!kIsDear<Op> || k <= warps) v = Op::combine(v, keep[k]);
      const int of = kIsDear<Op> ? lane : warp;
      around = {shuffle(v, of), shuffle(v, (of + 1) & 31)};
      if ((kIsDear<Op> || warp + 1 == 1 << warps) && (carry.tiles > 1 || asks_total())) {
        Value own = shuffle(all_warps, 0);
        if (carry.tiles > 1) {
          const Value last = fold_next<Op>(kept, bits, 1, coord.tile, own, before);
          if (of + 1 == 1 << warps) around.last = last;
        }
        if (asks_total() && coord.tile + 1 == carry.tiles && lane == 0) put_total(p, own);
      }
    }
    if constexpr (kIsDear<Op>) {
      __shared__ Around<Op> of_warps[Warps];
      if (warp == 0 && lane < 1 << warps) of_warps[first + lane] = around;
      __syncthreads();
      around = of_warps[threadIdx.x >> 5];
    }
    return around;
  }

  // What came before a line, or the identity.
  __device__ __forceinline__ bool has_before() const { return Continued && lines.before != nullptr; }
  __device__ __forceinline__ Value before_line(const PartCoord& p) const {
    if constexpr (Continued)
      if (has_before() && p.line < count) return value_before(source, lines, p.line);
    return Op::identity();
  }
  __device__ __forceinline__ bool asks_total() const { return Continued && gives_totals<Value>(lines); }
  __device__ __forceinline__ void put_total(const PartCoord& p, Value total) const {
    if (p.line < count) static_cast<Value*>(lines.totals)[p.line] = total;
  }
  // The total of a line of 2^k elements that is shorter than a run: its first elements are a block of the run.
  __device__ __forceinline__ Value total_of_run(const PartCoord& p, const State& s) const {
    const int n = int(lines.length);
    if constexpr (kIsDear<Op>) {
      return first_block(s.node, n, s.node[0]);
    } else {
      Value x[E], total = s.node[Vectors];
#pragma unroll
      for (int d = 1; 1 << d < Vectors; d++)
        if (n == Run >> d) total = s.node[1 << d];
      if (n >= E) return total;
      load_blocks(x, p, 0, 0);
      return first_block(x, n, total);
    }
  }

  __device__ __forceinline__ void down(TileCoord coord, const State& s) const {
    const PartCoord p = part_coord(coord);
    const Around<Op> around = around_warp(coord, p, s);
    // Down: the folds before this thread's run and up to its last element, then the vectors and their elements.
    Value lo[2 * Vectors], hi[2 * Vectors], fold[Run];
    lo[1] = around.before;
#pragma unroll
    for (int k = 4; k >= 0; k--)
      if (!kIsDear<Op> || k < log_threads) lo[1] = Op::combine(lo[1], s.keep[k]);
    const int lane = threadIdx.x & 31;
    const Value next = shuffle(lo[1], (lane + 1) & 31);
    hi[1] = (lane + 1) & (lanes - 1) ? next : around.last;
    if constexpr (kIsDear<Op>) {
#pragma unroll
      for (int i = 0; i < Run; i++) fold[i] = s.node[i];
      folds_of_first<Op, E>(fold, SoFar<Op>{lo[1], true}, hi[1], run());
    } else {
      tree_down<Op, Vectors>(s.node, lo, hi);
    }
    const uint64_t hidden = IsIndexed<Value>::value ? in_order(load_hidden(coord)) : 0;

#pragma unroll
    for (int j = 0; j < Vectors; j++) {
      if (!has(j)) break;
      Value x[E], y[E], before = lo[kIsDear<Op> ? 1 : Vectors + j];
      if constexpr (kIsDear<Op>) {
        before = part_of(fold, j, before, x);
      } else {
        load_blocks(x, p, j, hidden);
        folds_of_run<Op, E>(x, SoFar<Op>{before, true}, hi[Vectors + j]);
      }
#pragma unroll
      for (int i = 0; i < E; i++) y[i] = !lines.exclusive ? x[i] : i > 0 ? x[i > 0 ? i - 1 : 0] : before;
      if (j == 0)
        if (lines.exclusive && p.first + q == 0 && !has_before()) y[0] = empty_value(source);
      store(y, j);
      if constexpr (IsIndexed<Value>::value) {
        const int at = q * Run + j * E;
#pragma unroll
        for (int i = 0; i < E; i++)
          *index_slot(reverse() ? all - 1 - at - i : at + i) = from_the_front(lines, y[i].index);
      }
    }
    const int64_t first = p.line * lines.results + (reverse() ? lines.results - p.first - p.results : p.first);
    Result* const to = reinterpret_cast<Result*>(lines.output) + first;
    const int at = reverse() ? all - p.results : 0;
    if constexpr (kShifts) {
      const int shift = shift_of(to, at);
      if (__any_sync(kFullWarp, shift > 0)) {
        const uint4 mine = *my_run();
        const int behind = (lane + (reverse() ? 31 : 1)) & 31;
        const uint4 first_behind = {shuffle(mine.x, behind), shuffle(mine.y, behind), shuffle(mine.z, behind),
                                    shuffle(mine.w, behind)};
        if (shift > 0) shift_on(shift, first_behind);
      }
    }
    __syncwarp();
    if constexpr (IsIndexed<Value>::value) {
      const int64_t none = Continued && p.line < count ? index_before(lines, p.line) : -1;
#pragma unroll 4
      for (int i = q; i < p.results; i += lanes) {
        const int64_t index = *index_slot(at + i);
        lines.indices[first + i] = !Continued ? index : index < 0 ? none : lines.front + index;
      }
    }
    if (in_vectors(to, at, p.results))
      for_each<Result, E>(at, p.results, [&](const Result* from, int i) {
        *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from);
      });
    else if constexpr (kShifts) store_vectors(to, at, p.results);
    else for_each<Result, 1>(at, p.results, [&](const Result* from, int i) { to[i] = *from; });
  }
};

template <class S, Direction direction, bool Continued>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks<typename S::Op>)
    scan_rows(const __grid_constant__ S source, const __grid_constant__ Lines lines, int64_t count, int threads_and_run,
              unsigned work, const __grid_constant__ Carry<kRowRadix> carry) {
  using Tiles = RowTiles<S, direction, Continued>;
  __shared__ typename S::Value warp_totals[kBuffers][Tiles::Warps], kept[kRowRadix * kMaxLevels];
  // One parameter holds both where to combine is dear; elsewhere runs have one length.
  const bool dear = kIsDear<typename S::Op>;
  const int log_threads = dear ? threads_and_run & 255 : threads_and_run, log_run = dear ? threads_and_run >> 8 : 0;
  Tiles tiles{source, lines, carry, count, log_threads, log_run, reinterpret_cast<char*>(memory), warp_totals, kept};
  if constexpr (kTakesSeveral<S>)
    if (gridDim.x < work) return scan_carried(tiles, carry.tile_state, work);
  scan_one(tiles, log_threads > 5, carry.tiles > 1, carry.tile_state);
}

}  // namespace torch_reductions::cuda::scan
