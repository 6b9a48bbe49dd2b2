// Few columns whose rows are contiguous in memory, such as (1048576, 33) along dim 0: a block takes a tile of the
// memory as it is, by 16-byte loads, and folds its columns from shared memory.
#pragma once
#include "columns.cuh"

namespace torch_reductions::cuda::reduce {

inline constexpr int kFewThreads = 256;  // at most
inline constexpr int kFewBytes = 32;     // the longest row
inline constexpr int kFewResults = 128;  // for each byte of an element, from which several matrices have other blocks
inline constexpr int kLogMaxSteps = 3;

// The rows that a thread folds at once: enough for every run to begin at a vector.
HOST_DEVICE constexpr int rows_at_once(int element) { return element < 4 ? 64 / element : element == 4 ? 16 : 8; }

// A block takes 2^log_height runs at once ("a step") and 2^log_steps steps one after the other; a thread is
// (column, run).
struct FewColumnsConfig {
  int columns, log_height, log_steps;

  HOST_DEVICE int run_bytes(int element) const { return rows_at_once(element) * columns * element; }
  // Padding after every run: threads that read at its stride meet different banks.
  HOST_DEVICE int padding(int element) const { return (columns * element + 15) / 16 * 16; }
  // One vector more where memory is not aligned.
  HOST_DEVICE int stage_bytes(int element) const {
    return ((run_bytes(element) + padding(element)) << log_height) + 16 + padding(element);
  }
};

// The total of column `threadIdx.x >> min(log_height, 5)` over 2^log_height runs, table[column][run]; valid in all
// lanes of the column.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_runs(const typename Op::Value* table,
                                                        const FewColumnsConfig& config) {
  const int log_lanes = config.log_height < 5 ? config.log_height : 5, log_each = config.log_height - log_lanes;
  const int column = threadIdx.x >> log_lanes, lane = threadIdx.x & ((1 << log_lanes) - 1);
  typename Op::Value v = Op::identity();
  if (column < config.columns) {
    const typename Op::Value* own = table + (column << config.log_height) + (lane << log_each);
    v = own[0];
    if (log_each == 1) v = Op::combine(v, own[1]);
    if (log_each == 2) v = Op::combine(Op::combine(v, own[1]), Op::combine(own[2], own[3]));
  }
  for (int k = 0; k < log_lanes; k++) v = xor_step<Op>(v, k, lane);
  return v;
}

// The ragged tile, straight from memory. Not inlined: it is rare, and would take registers from the rest.
template <class S>
__device__ __noinline__ const typename S::Value* fold_ragged_columns(S source, const char* p, int64_t row_bytes,
                                                                     int64_t n, int64_t index, ColumnConfig config,
                                                                     uint4* memory) {
  return column_fold<1, false>(source, p, row_bytes, n, index, 32, config, memory);
}

// The first tiles * outer blocks fold a tile each; data is the first of `outer` parts that lie outer_bytes apart.
template <class S>
__global__ void __launch_bounds__(kFewThreads, sizeof(typename S::Value) == 4   ? 4
                                               : sizeof(typename S::Value) == 8 ? 3
                                                                                : 2)
    few_columns(S source, const char* data, int64_t outer_bytes, Output out, FewColumnsConfig config, Split split) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int Rows = rows_at_once(S::kBytes), Loads = Rows * S::kBytes / 16;  // of a thread and step
  const unsigned workers = split.lines / config.columns * split.tiles;
  const bool several = split.tiles > 1;
  if (blockIdx.x >= workers) return read_lines<Op>(split, out, blockIdx.x - workers);
  const unsigned outer = blockIdx.x / split.tiles, tile = blockIdx.x - outer * split.tiles;
  const int64_t start = int64_t(tile) << split.log_tile, row_bytes = int64_t(config.columns) * S::kBytes;
  const int64_t left = split.length - start, full = int64_t(1) << split.log_tile,
                line = int64_t(outer) * config.columns;
  const char* p = data + outer * outer_bytes + start * row_bytes;
  const int t = threadIdx.x, y = t / config.columns, x = t - y * config.columns;

  if (left < full) [[unlikely]] {  // the ragged tile, straight from memory
    ColumnConfig whole{config.columns, config.log_height, split.log_tile - config.log_height, 0};
    const Value* const digit = fold_ragged_columns(source, p + x * S::kBytes, row_bytes, left, start, whole, memory);
    if (t >= config.columns) return;
    if (several) {
      const unsigned tag = launch_tag(launch_number(split.tile_state));
      for (uint64_t set = left; set != 0; set ^= uint64_t(1) << highest_bit(set))
        publish_digit(split, line + t, highest_bit(set), digit[highest_bit(set) * config.columns + t], tag);
    } else {
      out.store<Op>(line + t, fold_set_digits<Op>(Op::identity(), digit + t, left, config.columns));
    }
    return;
  }

  char* const stage = reinterpret_cast<char*>(memory);
  Value* const table = reinterpret_cast<Value*>(stage + config.stage_bytes(S::kBytes));
  const int shift = int(reinterpret_cast<uintptr_t>(p) & 15), run_bytes = config.run_bytes(S::kBytes),
            padding = config.padding(S::kBytes), step_bytes = run_bytes << config.log_height;
  p -= shift;
  int to[Loads];  // where this thread's vectors lie in the stage; -1 past the end
#pragma unroll
  for (int j = 0; j < Loads; j++) {
    const int at = (j * int(blockDim.x) + t) * 16;
    to[j] = at < step_bytes ? at + at / run_bytes * padding : -1;
  }
  const uint64_t policy = evict_first();
  uint32_t words[Loads][4], over[4];
  const auto load = [&](int step) {
    const char* from = p + int64_t(step) * step_bytes;
#pragma unroll
    for (int j = 0; j < Loads; j++) load16(words[j], from + (j * int(blockDim.x) + t) * 16, policy, to[j] >= 0);
    load16(over, from + step_bytes, policy, t == 0 && shift != 0);
  };
  const int steps = 1 << config.log_steps, height = 1 << config.log_height;
  Value wait[kLogMaxSteps + 1][1];
  load(0);
  for (int step = 0; step < steps; step++) {
#pragma unroll
    for (int j = 0; j < Loads; j++)
      if (to[j] >= 0)
        *reinterpret_cast<uint4*>(stage + to[j]) = make_uint4(words[j][0], words[j][1], words[j][2], words[j][3]);
    if (t == 0 && shift != 0)
      *reinterpret_cast<uint4*>(stage + step_bytes + padding * height) = make_uint4(over[0], over[1], over[2], over[3]);
    __syncthreads();
    if (step + 1 < steps) load(step + 1);  // in flight while this step is folded
    if (y < height) {
      constexpr int Batch = Rows < 16 ? Rows : 16;
      const int own = x * S::kBytes + shift;  // in the run; its last elements may lie behind the padding
      const char* run = stage + y * (run_bytes + padding);
      const int64_t index = start + (int64_t(step) * height + y) * Rows;
      Value parts[log2_of(Rows / Batch) + 1][1], v[1];
#pragma unroll 1
      for (int first = 0; first < Rows; first += Batch) {
        Value batch[Batch];
#pragma unroll
        for (int i = 0; i < Batch; i++) {
          const int at = own + (first + i) * int(row_bytes);
          uint32_t word[(S::kBytes + 3) / 4];
          load_words<S::kBytes>(word, run + at + (at >= run_bytes ? padding : 0));
          batch[i] = source.value(word, 0, index + first + i);
        }
        v[0] = tree<Op, Batch>(batch);
        push<Op, 1>(parts, v, first / Batch);
      }
      table[(x << config.log_height) + y] = v[0];  // of all batches: their number is a power of two
    }
    __syncthreads();
    Value v[1] = {fold_runs<Op>(table, config)};
    push<Op, 1>(wait, v, step);
  }
  const int log_lanes = config.log_height < 5 ? config.log_height : 5, column = t >> log_lanes;
  if (column >= config.columns || (t & ((1 << log_lanes) - 1)) != 0) return;
  static_for<kLogMaxSteps + 1>([&](auto k) {
    if (k.value != config.log_steps) return;
    if (several)
      publish_total(split, line + column, tile, wait[k.value][0], launch_tag(launch_number(split.tile_state)));
    else out.store<Op>(line + column, wait[k.value][0]);
  });
}

}  // namespace torch_reductions::cuda::reduce
