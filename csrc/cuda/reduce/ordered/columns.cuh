// Any layout: a thread takes V neighbouring results and a run of 2^k elements of each; the runs of a block are merged
// in shared memory. Where rows are aligned and wide, a warp takes 32 words of them through a ring in shared memory,
// which keeps more bytes in flight than registers can.
#pragma once
#include "../../primitives/async.cuh"
#include "../../primitives/shared.cuh"
#include "split.cuh"
#include "vectors.cuh"

namespace torch_reductions::cuda::reduce {

// A run is at most 2^kLogMaxRun elements: each level of its binary counter is kept in registers. Of extremes with an
// index the order does not show: the blocks of a run become one value as they come.
template <class S, int V>
inline constexpr int kLogMaxRun = kArg<S> || V * sizeof(typename S::Value) <= 4 ? 12
                                  : V * sizeof(typename S::Value) <= 8          ? 11
                                  : V * sizeof(typename S::Value) <= 16         ? 9
                                                                                : 8;
// A warp's stage of the ring is 2 KB of rows of 32 groups of V.
inline constexpr int kStages = 3, kStageBytesOfWarp = 2048;

// The rows that a thread folds at once: those of a stage, or as many as it can load into registers.
template <class S, int V, bool Staged>
inline constexpr int kLogBatch = Staged                              ? log2_of(kStageBytesOfWarp / 32 / (V * S::kBytes))
                                 : sizeof(typename S::Value) == 16   ? 2 + kArg<S>
                                 : V * sizeof(typename S::Value) > 8 ? 3
                                                                     : 4;

// A block takes `width` groups of V neighbouring results and 2^log_height runs of 2^log_run elements of each.
struct ColumnConfig {
  int width, log_height, log_run;
  unsigned blocks_across;  // blocks side by side

  int log_tile() const { return log_run + log_height; }
  // In shared memory: for each column the totals of its runs, then its digits.
  size_t values() const { return size_t(width) * ((1 << log_height) + log_tile() + 1); }
};

// v[0 .. V) folded over 2^Log elements.
template <int V, int Log, class T, class Op, int G>
__device__ __forceinline__ void column_block(const Input<T, Op, G>& source, typename Op::Value (&v)[V], const char* p,
                                             int64_t step, int64_t index) {
  constexpr int R = 1 << Log;
  uint32_t words[R][(V * sizeof(T) + 3) / 4];
#pragma unroll
  for (int i = 0; i < R; i++) load_words<V * sizeof(T)>(words[i], p + i * step);
  column_trees<R, V>(source, v, words, index);
}

template <class Value, int V>
__device__ __forceinline__ void put(Value* to, const Value (&v)[V]) {
#pragma unroll
  for (int e = 0; e < V; e++) to[e] = v[e];
}

// The batches of a run, one after the other: from memory, or (Staged) from the warp's ring in shared memory.
template <class S, int V, bool Staged>
struct Batches {
  __device__ __forceinline__ Batches(const char*, int64_t, int, int, char*) {}
  __device__ __forceinline__ void next(const S& source, typename S::Value (&v)[V], const char* p, int64_t step,
                                       int64_t index) {
    column_block<V, kLogBatch<S, V, false>>(source, v, p, step, index);
  }
};

template <class S, int V>
struct Batches<S, V, true> {
  static constexpr int kLane = V * S::kBytes, kRow = 32 * kLane, kVectors = kRow / 16;  // bytes; vectors of a row
  static constexpr int kLogRows = kLogBatch<S, V, true>;
  const char* from;  // this lane's first vector of the next batch to load
  char* ring;
  int64_t step;
  int left, slot = 0;  // the batches still to load, and the stage that is read next
  int own;             // this lane's group in a row; beyond the last one, the last one again
  bool valid;

  // p: lane 0's group of the first row; groups: how many of the 32 lanes' groups exist.
  __device__ __forceinline__ Batches(const char* p, int64_t step, int batches, int groups, char* ring)
      : ring(ring), step(step), left(batches) {
    const int lane = threadIdx.x & 31;
    from = p + lane / kVectors * step + lane % kVectors * 16;
    own = (lane < groups ? lane : groups - 1) * kLane;
    valid = lane % kVectors * 16 < groups * kLane;
    for (int i = 0; i + 1 < kStages; i++) issue_load(i);
  }
  __device__ __forceinline__ void issue_load(int stage) {
    if (left > 0) {
      left--;
      const int lane = threadIdx.x & 31;
      if (valid) {
#pragma unroll
        for (int i = 0; i < kStageBytesOfWarp / 512; i++)
          cp_async(ring + stage * kStageBytesOfWarp + (i * 32 + lane) * 16, from + i * (32 / kVectors) * step);
      }
      from += step << kLogRows;
    }
    cp_async_commit();  // an empty group too: cp_async_wait counts them
  }
  __device__ __forceinline__ void next(const S& source, typename S::Value (&v)[V], const char*, int64_t,
                                       int64_t index) {
    cp_async_wait<kStages - 2>();
    __syncwarp();
    issue_load(slot == 0 ? kStages - 1 : slot - 1);  // into the stage that every lane has read by now
    column_block<V, kLogRows>(source, v, ring + slot * kStageBytesOfWarp + own, kRow, index);
    slot = slot + 1 == kStages ? 0 : slot + 1;
  }
};

// The totals of `whole` runs of each of `width` columns, table[run * pitch + column], become digits log_run and up.
template <int V, class Op>
__device__ __forceinline__ void merge_runs(typename Op::Value* table, typename Op::Value* digit, int width,
                                           int log_height, int log_run, int whole) {
  using Value = typename Op::Value;
  const int y = threadIdx.x / width, column = (threadIdx.x - y * width) * V, pitch = width * V;
  if (log_height <= 5) {  // uniform: one lane per run, the digits by xor steps
    const int run = threadIdx.x & ((1 << log_height) - 1), group = threadIdx.x >> log_height;
    const bool inside = group < width;
#pragma unroll
    for (int e = 0; e < V; e++) {
      Value* const to = digit + log_run * pitch + group * V + e;
      Value v = inside && run < whole ? table[run * pitch + group * V + e] : Op::identity();
      for (int k = 0; k < log_height; k++) {
        const Value other = shuffle_xor(v, 1 << k);
        if (inside && (whole >> k & 1) && run == (whole & ((1 << log_height) - 1))) to[k * pitch] = other;
        v = join<Op>(run >> k & 1, v, other);
      }
      if (inside && whole >> log_height && run == 0) to[log_height * pitch] = v;
    }
    __syncthreads();
    return;
  }
  for (int k = 0; k <= log_height; k++) {
    const int size = 1 << k;
    if ((whole >> k & 1) && y == whole >> (k + 1) << (k + 1)) {
#pragma unroll
      for (int e = 0; e < V; e++) digit[(log_run + k) * pitch + column + e] = table[y * pitch + column + e];
    }
    if (k < log_height && (y & (2 * size - 1)) == 0 && y + 2 * size <= whole) {
#pragma unroll
      for (int e = 0; e < V; e++) {
        Value& left = table[y * pitch + column + e];
        left = Op::combine(left, table[(y + size) * pitch + column + e]);
      }
    }
    __syncthreads();
  }
}

// One block folds n elements of `width` groups; p is this thread's group at the block's first element. Staged: each
// warp takes one run of 32 groups side by side, of which `groups` exist. Afterwards (synchronised) digit[k * pitch +
// column] is digit k of that column wherever bit k of n is set. table: a value for each thread and column; digits
// follow it.
template <int V, bool Staged, class S>
__device__ __forceinline__ typename S::Value* column_fold(const S& source, const char* p, int64_t step, int64_t n,
                                                          int64_t index, int groups, const ColumnConfig& config,
                                                          uint4* memory) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogR = kLogBatch<S, V, Staged>, Levels = kArg<S> ? 1 : kLogMaxRun<S, V> - LogR + 1;
  const int log_run = config.log_run;
  const int y = threadIdx.x / config.width, column = (threadIdx.x - y * config.width) * V, pitch = config.width * V;
  const int whole = int(n >> log_run);  // complete runs
  Value* const table = reinterpret_cast<Value*>(memory);
  Value* const digit = table + (pitch << config.log_height);
  const auto take = [&](Value(&wait)[Levels][V], Value(&v)[V], int r) {
    if constexpr (!kArg<S>) push<Op, V>(wait, v, r);
    else
#pragma unroll
      for (int e = 0; e < V; e++) wait[0][e] = r == 0 ? v[e] : Op::combine(wait[0][e], v[e]);
  };
  const auto finish_run = [&](Value(&wait)[Levels][V], int count) {
    const bool complete = count == 1 << log_run;
    if constexpr (!kArg<S>) {
      static_for<Levels>([&](auto l) {
        if (count >> (LogR + l.value) & 1)
          put(complete ? table + y * pitch + column : digit + (LogR + l.value) * pitch + column, wait[l.value]);
      });
      // What is left of a run that is not complete; or a complete one shorter than a batch, whose digit is its total.
      if (complete && log_run >= LogR) return;
    }
    Value* const to = complete ? table + y * pitch + column - log_run * pitch : digit + column;
    for_each_digit<LogR>(count & ((1 << LogR) - 1), [&](auto k, int at) {
      Value v[V];
      column_block<V, k.value>(source, v, p, step, index);
      if constexpr (kArg<S>) take(wait, v, count >> LogR | at);
      else put(to + k.value * pitch, v);
      p += step << k.value;
      index += 1 << k.value;
    });
    if constexpr (kArg<S>) {
      if (complete) return put(table + y * pitch + column, wait[0]);
      // The highest digit is all of them.
      for (int k = 0; count >> k != 0; k++) {
        if (!(count >> k & 1)) continue;
#pragma unroll
        for (int e = 0; e < V; e++) digit[k * pitch + column + e] = count >> k == 1 ? wait[0][e] : Op::identity();
      }
    }
  };
  if (Staged || y < 1 << config.log_height) {  // every warp of a ring has a run
    Value wait[Levels][V];
    const int64_t first = int64_t(y) << log_run;
    const int64_t left = n - first;
    const int count = left <= 0 ? 0 : left < 1 << log_run ? int(left) : 1 << log_run;
    p += first * step;
    index += first;
    const int lane = threadIdx.x & 31;
    Batches<S, V, Staged> batches(p - (lane < groups ? lane : groups - 1) * (V * S::kBytes), step, count >> LogR,
                                  groups,
                                  reinterpret_cast<char*>(memory) + (threadIdx.x >> 5) * (kStages * kStageBytesOfWarp));
    for (int r = 0; r < count >> LogR; r++) {
      Value v[V];
      batches.next(source, v, p, step, index);
      take(wait, v, r);
      p += step << LogR;
      index += 1 << LogR;
    }
    if constexpr (Staged) __syncthreads();  // the ring becomes the table
    finish_run(wait, count);
  }
  __syncthreads();
  merge_runs<V, Op>(table, digit, config.width, config.log_height, log_run, whole);
  return digit;
}

template <class S, int V, bool Staged>
inline constexpr int kColumnThreads = Staged                               ? 512
                                      : V * sizeof(typename S::Value) <= 8 ? 1024
                                      : kArg<S>                            ? 256
                                                                           : 512;
// Blocks that share a multiprocessor: while one merges its runs the others read.
template <class S, int V, bool Staged>
inline constexpr int kColumnBlocks = kColumnThreads<S, V, Staged> == 256 ? 2 : 1;

// A block takes a tile of the lines of one column block.
template <class S, int V, bool Staged>
__global__ void __launch_bounds__(kColumnThreads<S, V, Staged>, kColumnBlocks<S, V, Staged>)
    columns(S source, Lines columns, int64_t all_groups, Output out, ColumnConfig config, Split split) {
  using Op = typename S::Op;
  const unsigned workers = config.blocks_across * split.tiles;
  if (blockIdx.x >= workers) return read_lines<Op>(split, out, blockIdx.x - workers);
  const unsigned tile = blockIdx.x / config.blocks_across,
                 column_block =
                     blockIdx.x - tile * config.blocks_across;  // neighbouring column blocks run at the same time
  const int64_t first = int64_t(column_block) * config.width, left_groups = all_groups - first;
  const int groups = left_groups < config.width ? int(left_groups) : config.width;
  const int y = threadIdx.x / config.width, x = threadIdx.x - y * config.width;
  const char* p = columns.line(first + (x < groups ? x : groups - 1));  // beyond the last group: the last one again
  const int64_t start = int64_t(tile) << split.log_tile, full = int64_t(1) << split.log_tile;
  const int64_t left = split.length - start, n = left < full ? left : full;
  const auto* const digit = column_fold<V, Staged>(source, p + start * columns.length_bytes, columns.length_bytes, n,
                                                   start, groups, config, memory);
  const int pitch = config.width * V;
  if (split.tiles == 1) {
    for (int c = threadIdx.x; c < groups * V; c += blockDim.x)
      out.store<Op>(first * V + c, fold_set_digits<Op>(Op::identity(), digit + c, n, pitch));
    return;
  }
  const unsigned tag = launch_tag(launch_number(split.tile_state));
  for (uint64_t set = n; set != 0; set ^= uint64_t(1) << highest_bit(set)) {  // of a whole tile one digit, its total
    const int k = highest_bit(set);
    const int64_t word = k == split.log_tile ? tile : (split.length >> split.log_tile) + k;
    for (int c = threadIdx.x; c < groups * V; c += blockDim.x)
      publish_total(split, first * V + c, word, digit[k * pitch + c], tag);
  }
}

}  // namespace torch_reductions::cuda::reduce
