// The vector code of `ordered`: each ordered_*.cpp compiles it for one processor.
//
// A tile of the result is cut into tiles of a few rows by two vectors, whose chains stay in registers (ordered_steps.h).
// They read panels, packed for it (ordered_pack.h): a block of rows is packed for a chunk of k and meets all columns; a
// panel of columns is packed when the first block comes to it. A chunk is taken in two halves of one chain, so that half a
// panel of columns stays in the first-level cache, where it meets the block's panels of rows, which lie in the second.
#pragma once
#include "ordered.h"
#include "ordered_pack.h"
#include "output.h"

namespace torch_reductions::cpu {
namespace {

constexpr int64_t kHalf = kProductChunk / 2;
constexpr int64_t kBlockRows = 144;  // by a chunk of floats: 288 KiB of the second-level cache

// How a tile is cut. Panels of rows are of one height, the last one may be lower.
template <class S>
struct Cut {
  using Word = WordOf<S>;
  using Sum = typename StepOf<S>::Sum;
  static constexpr int kColumns = kVectors * kLanes<Word>, kDepth = StepOf<S>::kDepth;
  static constexpr int64_t kHalfSteps = kHalf / kDepth, kSteps = kProductChunk / kDepth;

  int64_t rows, columns, height, row_panels, block, column_panels;

  explicit Cut(const ProductTile& tile) : rows(tile.row_count), columns(tile.column_count) {
    const int64_t fewest = (rows + kRows - 1) / kRows;
    height = (rows + fewest - 1) / fewest;
    row_panels = (rows + height - 1) / height;
    block = kBlockRows / height < row_panels ? kBlockRows / height : row_panels;
    column_panels = (columns + kColumns - 1) / kColumns;
  }

  bool one_block() const { return block == row_panels; }
  int64_t panel_sums() const { return height * kColumns; }
  int64_t sums() const { return row_panels * column_panels * panel_sums(); }

  // The parts of a workspace.
  int64_t left_bytes() const { return (block * height * kSteps + kLanes<Word>)*sizeof(Word); }
  int64_t right_bytes() const {
    return (one_block() ? 1 : 2 * column_panels) * kHalfSteps * kColumns * int64_t(sizeof(Word));
  }
  int64_t chain_bytes() const { return block * panel_sums() * int64_t(sizeof(Sum)); }
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

// Lanes from the tile's own lane `first` on, from element k.
template <class S>
ALWAYS_INLINE Lanes<S> lanes_of(const Factor& factor, int64_t batch, int64_t lane, int64_t k) {
  return {static_cast<const S*>(factor.data) + batch * factor.batch_stride + lane * factor.lane_stride +
              k * factor.k_stride,
          factor.lanes - lane, factor.lane_stride, factor.k_stride};
}

template <class S, class Out>
void multiply(const ProductTile& tile, const ProductChunks& chunks, void* workspace) {
  using Step = StepOf<S>;
  using Word = typename Step::Word;
  using Sum = typename Step::Sum;
  using C = Cut<S>;
  constexpr int W = kLanes<Word>;
  const C cut(tile);
  char* const memory = static_cast<char*>(workspace);
  Word* const left = reinterpret_cast<Word*>(memory);
  Word* const right = reinterpret_cast<Word*>(memory + aligned(cut.left_bytes()));
  Sum* const chains = reinterpret_cast<Sum*>(memory + aligned(cut.left_bytes()) + aligned(cut.right_bytes()));
  // Where the first chunk's sums go: the totals, or nowhere else if they are all.
  Sum* values = static_cast<Sum*>(chunks.values);
  if (!values && chunks.end > 1) {
    values = reinterpret_cast<Sum*>(memory + aligned(cut.left_bytes()) + aligned(cut.right_bytes()) +
                                    aligned(cut.chain_bytes()));
  }
  const int64_t depth = tile.args->k, steps_of_half = C::kHalfSteps;
  const auto length = [&](int64_t k, int64_t most) { return depth - k < most ? depth - k : most; };
  const auto steps = [](int64_t k) { return (k + C::kDepth - 1) / C::kDepth; };

  for (int64_t chunk = chunks.begin; chunk < chunks.end; chunk++) {
    const int64_t k = chunk * kProductChunk, taken = length(k, kProductChunk);
    const bool keep = values && (chunks.values || chunk == 0), last = chunk + 1 == chunks.end;
    Sum* const slots =
        chunks.values ? reinterpret_cast<Sum*>(reinterpret_cast<char*>(values) + chunk * sums_bytes<S>(tile)) : values;
    for (int64_t first = 0; first < cut.row_panels; first += cut.block) {
      const int64_t end = first + cut.block < cut.row_panels ? first + cut.block : cut.row_panels;
      const auto height = [&](int64_t p) {
        return cut.rows - p * cut.height < cut.height ? cut.rows - p * cut.height : cut.height;
      };
      const auto packed = [&](int64_t p) { return left + (p - first) * cut.height * C::kSteps; };
      for (int64_t p = first; p < end; p++) {
        pack(lanes_of<S>(tile.rows, tile.batch, tile.row + p * cut.height, k), height(p), taken, packed(p), height(p));
      }
      for (int64_t q = 0; q < cut.column_panels; q++) {
        const int64_t j = q * C::kColumns, width = cut.columns - j < C::kColumns ? cut.columns - j : C::kColumns;
        const int vectors = int((width + W - 1) / W), pitch = vectors * W;
        int64_t half = 0;
        do {  // once where there is no k
          const int64_t here = length(k + half, kHalf), from = half / C::kDepth;
          const bool ends = half + kHalf >= taken;
          Word* const b = right + (cut.one_block() ? 0 : 2 * q + (half != 0)) * steps_of_half * C::kColumns;
          if (first == 0) {
            pack(lanes_of<S>(tile.columns, tile.batch, tile.column + j, k + half), width, here, b, pitch);
          }
          for (int64_t p = first; p < end; p++) {
            const int64_t h = height(p);
            Sum* const kept = slots + (q * cut.row_panels + p) * cut.panel_sums();
            Sum* const sums = keep ? kept : chains + (p - first) * cut.panel_sums();
            kChains<Step>.of[h - 1][vectors - 1](packed(p) + from * h, b, pitch, steps(here), half == 0, sums);
            if (!ends || keep) continue;
            if (values) add(kept, sums, h * pitch);
            if (last) write<Out>(tile, p * cut.height, j, h, width, pitch, sums);
          }
          half += kHalf;
        } while (half < taken);
      }
    }
  }
}

template <class S, class Out>
void fold(const ProductTile& tile, int64_t chunks, void* values) {
  using Sum = typename StepOf<S>::Sum;
  using C = Cut<S>;
  constexpr int W = kLanes<typename StepOf<S>::Word>;
  const C cut(tile);
  Sum* const totals = static_cast<Sum*>(values);
  for (int64_t q = 0; q < cut.column_panels; q++) {
    const int64_t j = q * C::kColumns, width = cut.columns - j < C::kColumns ? cut.columns - j : C::kColumns;
    const int64_t pitch = (width + W - 1) / W * W;
    for (int64_t p = 0; p < cut.row_panels; p++) {
      const int64_t i = p * cut.height, h = cut.rows - i < cut.height ? cut.rows - i : cut.height;
      Sum* const sums = totals + (q * cut.row_panels + p) * cut.panel_sums();
      for (int64_t chunk = 1; chunk < chunks; chunk++) {
        add(sums, reinterpret_cast<Sum*>(reinterpret_cast<char*>(sums) + chunk * sums_bytes<S>(tile)), h * pitch);
      }
      write<Out>(tile, i, j, h, width, pitch, sums);
    }
  }
}

template <class S, class Out>
constexpr MatmulKernel kernel() {
  return {kRows, Cut<S>::kColumns, workspace_bytes<S>, sums_bytes<S>, multiply<S, Out>, fold<S, Out>};
}

constexpr MatmulKernels make_matmul_kernels() {
  MatmulKernels kernels{};
  for (int dtype = 0; dtype < kDtypes; dtype++) {
    if (Dtype(dtype) == Dtype::boolean) continue;
    with_storage(Dtype(dtype), [&](auto tag) {
      using S = typename decltype(tag)::type;
      kernels.own[dtype] = kernel<S, S>();
      if constexpr (sizeof(S) < 4) {
        kernels.wide[dtype] = kernel<S, std::conditional_t<std::is_integral_v<S>, int32_t, float>>();
      }
    });
  }
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu
