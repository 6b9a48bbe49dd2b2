// Columns whose rows are contiguous: the rows of a tile come through a ring in shared memory as they lie in memory, at
// any alignment, by 16-byte copies of the whole block; a thread folds a run of V neighbouring columns from there.
#pragma once
#include "../../primitives/fast_div.cuh"
#include "columns.cuh"

namespace torch_reductions::cuda::reduce {

inline constexpr int kRingStages = 3, kRingThreads = 288;  // threads at most
inline constexpr int kRingLoads = 6;                       // vectors of a stage that a thread copies, at most
// Rows of a stage and run: enough for each run's to begin at the same alignment.
template <class S>
inline constexpr int kLogRingRows = S::kBytes == 1 || sizeof(typename S::Value) <= 4 ? 4 : 3;
template <class S>
inline constexpr int kLogMaxRingRun = kLogRingRows<S> + 5;

// A stage has 2^kLogRingRows rows of each of the block's runs. They are copied in pieces: a run's rows where they
// continue one another, else each row. Sizes are in bytes.
struct RingConfig {
  ColumnConfig columns;
  int pieces;                    // of a run
  int piece, piece_pitch;        // of the tile's full width; their distance in shared memory
  int row_pitch, row_step;       // in shared memory: from row to row; and what changes in a row's alignment
  int run_pitch;                 // from run to run
  FastDiv run_vectors, vectors;  // of a run's pieces, of a piece
  unsigned workers;              // of a strip

  HOST_DEVICE int slot() const { return run_pitch << columns.log_height; }
};

template <class S, int V>
struct Ring {
  static constexpr int kLogRows = kLogRingRows<S>, R = 1 << kLogRows;
  static constexpr int kPeriod = 16 / (V * S::kBytes) < R ? 16 / (V * S::kBytes) : R;  // rows with one alignment
  const RingConfig& config;
  char* shared;
  int shift;         // of a tile's first byte in its vector
  const char* next;  // of the rows that are loaded next, the first one's, rounded down to a vector
  int left;          // bytes from `next` to the end of the tile
  int stage;         // bytes of memory from one stage to the next
  int slot_load = 0, slot_read = 0;      // in bytes
  int from[kRingLoads], to[kRingLoads];  // this thread's vectors: in memory, past the end where there is none; in a slot
  int own[kPeriod];                      // where this thread's elements of the first rows lie in a slot

  // p: the block's first column in the tile's first row; width: of the columns that exist, in bytes; offset: of the
  // thread's first element in a slot, were the first row aligned.
  __device__ __forceinline__ Ring(const RingConfig& config, const char* p, int64_t step, int width, int offset,
                                  char* shared)
      : config(config), shared(shared), shift(int(reinterpret_cast<uintptr_t>(p) & 15)), next(p), left(0),
        stage(int(step) << kLogRows) {
    const int count = config.run_vectors.divisor << config.columns.log_height;
#pragma unroll
    for (int j = 0; j < kRingLoads; j++) {
      const int f = j * blockDim.x + threadIdx.x, run = config.run_vectors.div(f),
                in_run = f - run * config.run_vectors.divisor, piece = config.vectors.div(in_run),
                vector = in_run - piece * config.vectors.divisor;
      const int row = shift + ((run << config.columns.log_run) + piece) * int(step),
                bytes = config.pieces == 1 ? config.piece : width;
      const bool exists = f < count && vector * 16 < (row & 15) + bytes;
      // Opaque, or the compiler would compute them again for every stage.
      from[j] = opaque(exists ? (row & ~15) + vector * 16 : INT32_MAX);
      to[j] = opaque(run * config.run_pitch + piece * config.piece_pitch + vector * 16);
    }
#pragma unroll
    for (int k = 0; k < kPeriod; k++)
      own[k] = opaque(offset + k * config.row_pitch + ((shift + k * config.row_step) & 15));
  }
  __device__ __forceinline__ int after(int slot) const {
    slot += config.slot();
    return slot == kRingStages * config.slot() ? 0 : slot;
  }
  // p: the first column in the first row of the next tile, which has `bytes` from there to its end.
  __device__ __forceinline__ void begin(const char* p, int bytes) {
    next = p - shift;
    left = shift + bytes;
  }
  __device__ __forceinline__ void issue_load() {
    char* const slot = shared + slot_load;
#pragma unroll
    for (int j = 0; j < kRingLoads; j++) cp_async_if(from[j] < left, slot + to[j], next + from[j]);
    cp_async_commit();  // an empty group too: cp_async_wait counts them
    next += stage, left -= stage;
    slot_load = after(slot_load);
  }
  template <class Value>
  __device__ __forceinline__ void fold(const S& source, Value (&v)[V], int64_t index) const {
    uint32_t words[R][(V * S::kBytes + 3) / 4];
#pragma unroll
    for (int i = 0; i < R; i++)
      load_words<V * S::kBytes>(words[i],
                                shared + slot_read + i / kPeriod * (kPeriod * config.row_pitch) + own[i % kPeriod]);
    column_trees<R, V>(source, v, words, index);
  }
};

// A strip is a block's columns of one outer index; `workers` blocks take its tiles in turn, and the ring runs on from one
// tile into the next.
template <class S, int V>
__global__ void __launch_bounds__(kRingThreads, sizeof(typename S::Value) * V <= 8 ? 3 : 2)
    ring_columns(S source, Columns columns, Output out, const __grid_constant__ RingConfig ring_config, Split split) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogR = Ring<S, V>::kLogRows, Levels = kLogMaxRingRun<S> - LogR + 1;
  const ColumnConfig& config = ring_config.columns;
  const bool several = split.tiles > 1;
  const unsigned outers = unsigned(columns.groups / columns.inner), strips = config.blocks_across * outers,
                 workers = ring_config.workers;
  if (blockIdx.x >= strips * workers) return read_lines<Op>(split, out, blockIdx.x - strips * workers);
  const unsigned worker = blockIdx.x / strips, strip = blockIdx.x - worker * strips,
                 outer = strip / config.blocks_across, across = strip - outer * config.blocks_across;
  const int log_run = config.log_run, run = 1 << log_run, pitch = config.width * V;
  const int left_groups = int(columns.inner - int64_t(across) * config.width),
            groups = left_groups < config.width ? left_groups : config.width, width = groups * (V * S::kBytes);
  const int y = threadIdx.x / config.width, column = (threadIdx.x - y * config.width) * V,
            x = column < groups * V ? column / V : groups - 1;  // beyond the last group: the last one again
  const int run_start = y << log_run;
  const int64_t step = columns.length_bytes;
  const char* const first =
      columns.data + outer * columns.outer_bytes + int64_t(across) * config.width * (V * S::kBytes);
  char* const shared = reinterpret_cast<char*>(memory);
  Value* const table = reinterpret_cast<Value*>(shared + kRingStages * ring_config.slot());
  Value* const digit = table + (pitch << config.log_height);
  const int64_t result = outer * columns.inner * V + int64_t(across) * pitch;
  const unsigned tag = several ? launch_tag(launch_number(split.tile_state)) : 0;
  const auto rows_of = [&](unsigned tile) {
    const int64_t left = split.length - (int64_t(tile) << split.log_tile), full = int64_t(1) << split.log_tile;
    return left <= 0 ? 0 : int(left < full ? left : full);
  };
  const auto rounds_of = [&](int rows) { return (rows < run ? rows : run) >> LogR; };  // of the block

  Ring<S, V> ring(ring_config, first, step, width, y * ring_config.run_pitch + x * (V * S::kBytes), shared);
  unsigned loaded = worker;  // the tile that is being loaded
  int to_load = 0;           // its stages that are still to load
  const auto begin = [&] {
    const int rows = rows_of(loaded);
    to_load = rounds_of(rows);
    ring.begin(first + (int64_t(loaded) << split.log_tile) * step, to_load == 0 ? -16 : (rows - 1) * int(step) + width);
  };
  const auto issue_load = [&] {
    ring.issue_load();
    if (--to_load == 0) {
      loaded += workers;
      begin();
    }
  };
  begin();
#pragma unroll 1
  for (int s = 0; s + 1 < kRingStages; s++) issue_load();

#pragma unroll 1
  for (unsigned tile = worker; tile < split.tiles; tile += workers) {
    const int64_t start = int64_t(tile) << split.log_tile;
    const int n = rows_of(tile), rounds = rounds_of(n);
    const int count = y >> config.log_height || n <= run_start ? 0 : n - run_start < run ? n - run_start : run;
    // A run of small integers does not exceed 32 bits.
    using Partial = std::conditional_t<S::kBytes < 4 && std::is_same_v<Op, Sum<int64_t>>, Sum<int>, Op>;
    typename Partial::Value wait[Levels][V];
    for (int r = 0; r < rounds; r++) {
      cp_async_wait<kRingStages - 2>();
      __syncthreads();  // every thread's copies are there, and the slot before has been read
      issue_load();
      if (r < count >> LogR) {
        typename Partial::Value v[V];
        ring.fold(source, v, start + run_start + (r << LogR));
        push<Partial, V>(wait, v, r);
      }
      ring.slot_read = ring.after(ring.slot_read);
    }
    if (count > 0) {
      const bool complete = count == run;
      static_for<Levels>([&](auto l) {
        if (count >> (LogR + l.value) & 1)
          put(complete ? table + y * pitch + column : digit + (LogR + l.value) * pitch + column, wait[l.value]);
      });
      const int whole = count >> LogR << LogR;
      if (!complete || log_run < LogR)
        column_tail<S, V, LogR - 1>(source, complete ? table + y * pitch + column - log_run * pitch : digit + column,
                                    pitch, first + x * (V * S::kBytes) + (start + run_start + whole) * step,
                                    count - whole, step, start + run_start + whole);
    }
    __syncthreads();
    merge_runs<V, Op>(table, digit, config.width, config.log_height, log_run, n >> log_run);
    for (int i = threadIdx.x; i < groups * V; i += blockDim.x) {
      if (!several) out.store<Op>(result + i, fold_set_digits<Op>(Op::identity(), digit + i, n, pitch));
      else if (n >> split.log_tile)
        publish_total(split, result + i, tile, digit[split.log_tile * pitch + i], tag);
      else
        for (uint64_t set = n; set != 0; set ^= uint64_t(1) << highest_bit(set))
          publish_digit(split, result + i, highest_bit(set), digit[highest_bit(set) * pitch + i], tag);
    }
    __syncthreads();  // the table and the digits have been read
  }
  cp_async_wait<0>();
}

}  // namespace torch_reductions::cuda::reduce
