// The vector code of `ordered`: each ordered_*.cpp compiles it for one processor.
//
// A tile of the result is cut into tiles of a few rows by two vectors, whose chains stay in registers (ordered_steps.h).
// They read panels, packed for it (ordered_pack.h): a block of rows is packed for a chunk of k and meets all columns; a
// panel of columns is packed when the first block comes to it. A chunk is taken in two halves of one chain, so that half a
// panel of columns stays in the first-level cache, where it meets the block's panels of rows, which lie in the second.
#pragma once
#include "ordered.h"
#include "ordered_few.h"
#include "output.h"

namespace torch_reductions::cpu {
namespace {

constexpr int64_t kNear = 512;       // bytes from step to step of columns that need not be packed
constexpr int64_t kBlockRows = 144;  // by a chunk of floats: 288 KiB of the second-level cache

// How a tile is cut. Panels of rows are of one height, the last one may be lower.
template <class S>
struct Cut {
  using Word = WordOf<S>;
  using Sum = typename StepOf<S>::Sum;
  static constexpr int kColumns = kVectors * kLanes<Word>, kDepth = StepOf<S>::kDepth;
  // Pairs are integers, whose chunks may be of any length: they are of as many steps as other chunks.
  static constexpr int64_t kSteps = kProductChunk, kHalfSteps = kSteps / 2;
  static constexpr int64_t kChunk = kSteps * kDepth, kHalf = kHalfSteps * kDepth;

  int64_t rows, columns, height, row_panels, block, column_panels;

  explicit Cut(const ProductTile& tile) : rows(tile.row_count), columns(tile.column_count) {
    const int64_t fewest = (rows + kRows - 1) / kRows;
    height = (rows + fewest - 1) / fewest;
    row_panels = (rows + height - 1) / height;
    block = kBlockRows / height < row_panels ? kBlockRows / height : row_panels;
    column_panels = (columns + kColumns - 1) / kColumns;
  }

  bool one_block() const { return block == row_panels; }
  int64_t height_of(int64_t p) const { return rows - p * height < height ? rows - p * height : height; }
  int64_t width_of(int64_t q) const { return columns - q * kColumns < kColumns ? columns - q * kColumns : kColumns; }
  // From row to row of a panel of columns: whole vectors.
  int64_t pitch_of(int64_t q) const { return (width_of(q) + kLanes<Word> - 1) / kLanes<Word> * kLanes<Word>; }
  int64_t panel_sums() const { return height * kColumns; }
  int64_t sums() const { return row_panels * column_panels * panel_sums(); }

  // The parts of a workspace.
  int64_t left_bytes() const { return (block * height * kSteps + kLanes<Word>)*sizeof(Word); }
  int64_t right_bytes() const {
    return (one_block() ? 1 : 2 * column_panels) * kHalfSteps * kColumns * int64_t(sizeof(Word));
  }
  int64_t chain_bytes() const { return (rows <= kFew ? kFewSums : block * panel_sums()) * int64_t(sizeof(Sum)); }
  int64_t total_bytes(int64_t chunks) const { return chunks > 1 ? sums() * int64_t(sizeof(Sum)) : 0; }
};

constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <class S>
size_t workspace_bytes(const ProductTile& tile, int64_t chunks) {
  const Cut<S> cut(tile);
  return aligned(cut.left_bytes()) + aligned(cut.right_bytes()) + aligned(cut.chain_bytes()) +
         aligned(cut.total_bytes(chunks));
}

template <class S>
size_t sums_bytes(const ProductTile& tile) {
  return aligned(Cut<S>(tile).sums() * sizeof(typename StepOf<S>::Sum));
}

// total + value in both.
template <class Sum>
ALWAYS_INLINE void add(Sum* total, Sum* value, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes<Sum>) {
    const Vector<Sum> sum = load(total + i) + load(value + i);
    store(total + i, sum);
    store(value + i, sum);
  }
}

// ---------------------------------------------------------------- the way out

template <class Out, class Sum>
ALWAYS_INLINE void write_row(const MatmulArgs& args, int64_t batch, int64_t i, int64_t j, int64_t count,
                             const Sum* sums) {
  if (args.added.data || args.alpha != 1) return write_products<Out>(args, batch, i, j, count, sums);
  narrow(sums, count, static_cast<Out*>(args.output) + (batch * args.m + i) * args.n + j, 1);
}

// `height` rows of `width` sums, `pitch` apart, whose first is at (i, j) of the tile.
template <class Out, class Sum>
__attribute__((noinline)) void write(const ProductTile& tile, int64_t i, int64_t j, int64_t height, int64_t width,
                                     int64_t pitch, const Sum* sums) {
  i += tile.row, j += tile.column;
  if (!tile.swapped) {
    for (int64_t r = 0; r < height; r++) {
      write_row<Out>(*tile.args, tile.batch, i + r, j, width, sums + r * pitch);
    }
  } else if (tile.args->n == 1) {
    // The result is one column, whose elements follow one another.
    MatmulArgs across = *tile.args;
    across.n = across.m, across.m = 1;
    across.added.column_stride = across.added.row_stride;
    write_row<Out>(across, tile.batch, 0, j, width, sums);
  } else {
    for (int64_t c = 0; c < width; c++) {
      Sum row[kRows];
      for (int64_t r = 0; r < height; r++) row[r] = sums[r * pitch + c];
      write_row<Out>(*tile.args, tile.batch, j + c, i, height, row);
    }
  }
}

// ---------------------------------------------------------------- the tile

// Lanes from `lane` of a factor on, from element k.
template <class S>
ALWAYS_INLINE Lanes<S> lanes_of(const Factor& factor, int64_t batch, int64_t lane, int64_t k) {
  return {static_cast<const S*>(factor.data) + batch * factor.batch_stride + lane * factor.lane_stride +
              k * factor.k_stride,
          factor.lanes - lane, factor.lane_stride, factor.k_stride};
}

template <class S, class Out>
class TileProduct {
  using Step = StepOf<S>;
  using Word = typename Step::Word;
  using Sum = typename Step::Sum;

 public:
  TileProduct(const ProductTile& tile, const ProductChunks& chunks, void* workspace)
      : tile_(tile), chunks_(chunks), cut_(tile) {
    char* memory = static_cast<char*>(workspace);
    const auto take = [&](int64_t bytes) { return memory += aligned(bytes), memory - aligned(bytes); };
    left_ = reinterpret_cast<Word*>(take(cut_.left_bytes()));
    right_ = reinterpret_cast<Word*>(take(cut_.right_bytes()));
    chains_ = reinterpret_cast<Sum*>(take(cut_.chain_bytes()));
    if (!chunks.values && chunks.end > 1) totals_ = reinterpret_cast<Sum*>(memory);
  }

  void run() {
    for (chunk_ = chunks_.begin; chunk_ < chunks_.end; chunk_++) {
      k_ = chunk_ * Cut<S>::kChunk;
      taken_ = shorter(tile_.args->k - k_, Cut<S>::kChunk);
      if (chunks_.values)
        totals_ = reinterpret_cast<Sum*>(static_cast<char*>(chunks_.values) + chunk_ * sums_bytes<S>(tile_));
      for (first_ = 0; first_ < cut_.row_panels; first_ += cut_.block) {
        end_ = shorter(first_ + cut_.block, cut_.row_panels);
        for (int64_t p = first_; p < end_; p++) {
          const Lanes<S> rows = lanes_of<S>(tile_.rows, tile_.batch, tile_.row + p * cut_.height, k_);
          pack(rows, cut_.height_of(p), taken_, left(p), cut_.height_of(p));
        }
        if (cut_.rows <= kFew) {
          few_rows();
        } else {
          for (int64_t q = 0; q < cut_.column_panels; q++) panel(q);
        }
      }
    }
  }

 private:
  static int64_t shorter(int64_t a, int64_t b) { return a < b ? a : b; }
  static int64_t steps(int64_t k) { return (k + Step::kDepth - 1) / Step::kDepth; }

  Word* left(int64_t p) const { return left_ + (p - first_) * cut_.height * Cut<S>::kSteps; }
  Lanes<S> columns(int64_t q, int64_t k) const {
    return lanes_of<S>(tile_.columns, tile_.batch, tile_.column + q * Cut<S>::kColumns, k);
  }

  // Are the sums of this chunk kept as they are, for others to be added?
  bool keeps() const { return chunks_.values || (totals_ && chunk_ == 0); }
  Sum* totals(int64_t p, int64_t q) const { return totals_ + (q * cut_.row_panels + p) * cut_.panel_sums(); }
  // Where the chains of a panel of rows are kept until they have come to the chunk's end.
  Sum* sums(int64_t p, int64_t q) const { return keeps() ? totals(p, q) : chains_ + (p - first_) * cut_.panel_sums(); }

  void finish(int64_t p, int64_t q, Sum* sums) const {
    if (keeps()) return;
    const int64_t h = cut_.height_of(p), width = cut_.width_of(q), pitch = cut_.pitch_of(q);
    if (totals_) add(totals(p, q), sums, h * pitch);
    if (chunk_ + 1 == chunks_.end) {
      write<Out>(tile_, p * cut_.height, q * Cut<S>::kColumns, h, width, pitch, sums);
    }
  }

  // A panel that lies in memory much as it would be packed, or null.
  ALWAYS_INLINE const Word* in_place(const Lanes<S>& from, int64_t pitch) const {
    if constexpr (sizeof(S) == sizeof(Word)) {
      if (cut_.one_block() && from.stride == 1 && pitch <= from.count && from.k_stride * int64_t(sizeof(S)) <= kNear) {
        return reinterpret_cast<const Word*>(from.at);
      }
    }
    return nullptr;
  }

  // A panel of columns and all panels of rows of the block.
  void panel(int64_t q) const {
    const int64_t width = cut_.width_of(q), pitch = cut_.pitch_of(q);
    int64_t k = 0;
    do {  // once where there is no k
      const int64_t taken = shorter(taken_ - k, Cut<S>::kHalf);
      const int64_t slot = cut_.one_block() ? 0 : 2 * q + (k != 0);
      const Lanes<S> from = columns(q, k_ + k);
      Word* const packed = right_ + slot * Cut<S>::kHalfSteps * Cut<S>::kColumns;
      const Word* right = in_place(from, pitch);
      const int64_t stride = right ? from.k_stride : pitch;
      if (!right) {
        if (first_ == 0) pack(from, width, taken, packed, pitch);
        right = packed;
      }
      for (int64_t p = first_; p < end_; p++) {
        const int64_t h = cut_.height_of(p);
        kChains<Step>.of[h - 1][pitch / kLanes<Word> - 1](left(p) + k / Step::kDepth * h, right, stride, steps(taken),
                                                          k == 0, sums(p, q));
        if (k + taken == taken_) finish(p, q, sums(p, q));
      }
      k += Cut<S>::kHalf;
    } while (k < taken_);
  }

  // All columns and one panel of few rows: columns are used too rarely to be packed.
  void few_rows() const {
    const Factor& factor = tile_.columns;
    const int64_t strip = kFewSums / cut_.panel_sums();
    int64_t q = 0;
    if (factor.lane_stride == 1) {
      // Whole panels.
      const int64_t reach = (tile_.columns.lanes - tile_.column) / Cut<S>::kColumns;
      const int64_t whole = shorter(reach, cut_.column_panels);
      while (q < whole) {
        const int64_t count = shorter(strip, whole - q);
        Sum* const kept = keeps() ? totals(0, q) : chains_;
        kFewRows<S>.along_lanes[cut_.rows - 1](left_, columns(q, k_), count, taken_, kept);
        for (int64_t i = 0; i < count; i++) finish(0, q + i, kept + i * cut_.panel_sums());
        q += count;
      }
    }
    for (; q < cut_.column_panels; q++) {
      if (factor.k_stride == 1) {
        kFewRows<S>.along_k[cut_.rows - 1](left_, columns(q, k_), cut_.width_of(q), taken_, sums(0, q));
        finish(0, q, sums(0, q));
      } else {
        panel(q);
      }
    }
  }

  const ProductTile& tile_;
  const ProductChunks& chunks_;
  const Cut<S> cut_;
  Word *left_, *right_;
  Sum *chains_, *totals_ = nullptr;
  int64_t chunk_, k_, taken_;  // the chunk, its first element and how many it has
  int64_t first_, end_;        // the block's panels of rows
};

template <class S, class Out>
void multiply(const ProductTile& tile, const ProductChunks& chunks, void* workspace) {
  TileProduct<S, Out>(tile, chunks, workspace).run();
}

template <class S, class Out>
void fold(const ProductTile& tile, int64_t chunks, void* values) {
  using Sum = typename StepOf<S>::Sum;
  const Cut<S> cut(tile);
  for (int64_t q = 0; q < cut.column_panels; q++) {
    for (int64_t p = 0; p < cut.row_panels; p++) {
      const int64_t h = cut.height_of(p), width = cut.width_of(q), pitch = cut.pitch_of(q);
      char* const first =
          static_cast<char*>(values) + (q * cut.row_panels + p) * cut.panel_sums() * int64_t(sizeof(Sum));
      Sum* const sums = reinterpret_cast<Sum*>(first);
      for (int64_t chunk = 1; chunk < chunks; chunk++) {
        add(sums, reinterpret_cast<Sum*>(first + chunk * sums_bytes<S>(tile)), h * pitch);
      }
      write<Out>(tile, p * cut.height, q * Cut<S>::kColumns, h, width, pitch, sums);
    }
  }
}

template <class S, class Out>
constexpr MatmulKernel kernel() {
  return {kRows, Cut<S>::kColumns, Cut<S>::kChunk, workspace_bytes<S>, sums_bytes<S>, multiply<S, Out>, fold<S, Out>};
}

// Of all types, or of those whose steps are pairs.
template <bool kPairsAlone = false>
constexpr MatmulKernels make_matmul_kernels() {
  MatmulKernels kernels{};
  for (int dtype = 0; dtype < kDtypes; dtype++) {
    if (Dtype(dtype) == Dtype::boolean) continue;
    with_storage(Dtype(dtype), [&](auto tag) {
      using S = typename decltype(tag)::type;
      if constexpr (!kPairsAlone || std::is_same_v<StepOf<S>, PairStep>) kernels.own[dtype] = kernel<S, S>();
      if constexpr (sizeof(S) < 4 && (!kPairsAlone || std::is_integral_v<S>)) {
        kernels.wide[dtype] = kernel<S, std::conditional_t<std::is_integral_v<S>, int32_t, float>>();
      }
    });
  }
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu
