// The vector code of `ordered`: each ordered_*.cpp compiles it for one processor.
//
// A tile of the result is split into register tiles of a few rows by two vectors, whose sums stay in registers
// (ordered_steps.h). These read packed panels (ordered_pack.h): a block of rows is packed for a chunk of k and
// multiplied with all columns; a panel of columns is packed when the first block of rows needs it. A chunk is computed
// in two halves, which continue one chain, so that half a panel of columns stays in the first-level cache while it is
// multiplied with the block's panels of rows, which are in the second-level cache.
#pragma once
#include "ordered.h"
#include "ordered_skinny.h"
#include "output.h"

namespace torch_reductions::cpu::matmul {
namespace {

constexpr int64_t kNear = 512;  // bytes: columns whose steps are not further apart need not be packed
constexpr int64_t kBlockWords = 144 * kProductChunk;  // of rows: 288 KiB of the second-level cache if they are floats

// The block sizes of a tile. All panels of rows have the same height, except the last one, which may be lower.
template <class S>
struct Blocking {
  using Word = WordOf<S>;
  using Sum = typename StepOf<S>::Sum;
  static constexpr int kColumns = kVectors * kLanes<Word>, kDepth = StepOf<S>::kDepth;
  // Chunks of integers may have any length: pairs of them get as many steps as other chunks.
  static constexpr int64_t kChunk = std::is_integral_v<Sum> ? kDepth * kProductChunk : kProductChunk;
  static constexpr int64_t kPanelSteps = kProductChunk / 2, kPanel = kPanelSteps * kDepth;
  static constexpr int64_t kSteps = kChunk / kDepth, kPanels = kSteps / kPanelSteps;

  int64_t rows, columns, height, row_panels, block, column_panels;

  explicit Blocking(const ProductTile& tile) : rows(tile.row_count), columns(tile.column_count) {
    const int64_t fewest = (rows + kTileRows - 1) / kTileRows;
    height = (rows + fewest - 1) / fewest;
    row_panels = (rows + height - 1) / height;
    const int64_t most = kBlockWords / (kSteps * height);
    block = most < row_panels ? most : row_panels;
    column_panels = (columns + kColumns - 1) / kColumns;
  }

  bool one_block() const { return block == row_panels; }
  int64_t height_of(int64_t p) const { return rows - p * height < height ? rows - p * height : height; }
  int64_t width_of(int64_t q) const { return columns - q * kColumns < kColumns ? columns - q * kColumns : kColumns; }
  // The width of a panel of columns in memory: whole vectors.
  int64_t pitch_of(int64_t q) const { return (width_of(q) + kLanes<Word> - 1) / kLanes<Word> * kLanes<Word>; }
  int64_t panel_sums() const { return height * kColumns; }
  int64_t sums() const { return row_panels * column_panels * panel_sums(); }

  // The parts of a workspace.
  int64_t left_bytes() const { return (block * height * kSteps + kLanes<Word>)*sizeof(Word); }
  int64_t right_panels() const { return one_block() ? 1 : kPanels * column_panels; }
  int64_t right_bytes() const { return right_panels() * kPanelSteps * kColumns * int64_t(sizeof(Word)); }
  int64_t exponent_bytes() const { return right_panels() * int64_t(sizeof(uint32_t)); }
  int64_t chain_bytes() const {
    return (rows <= kSkinnyRows ? kSkinnySums : block * panel_sums()) * int64_t(sizeof(Sum));
  }
  int64_t total_bytes(int levels) const { return levels * sums() * int64_t(sizeof(Sum)); }
};

constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <class S>
size_t workspace_bytes(const ProductTile& tile, int levels) {
  const Blocking<S> blocking(tile);
  return aligned(blocking.left_bytes()) + aligned(blocking.right_bytes()) + aligned(blocking.exponent_bytes()) +
         aligned(blocking.chain_bytes()) + aligned(blocking.total_bytes(levels));
}

template <class S>
size_t sums_bytes(const ProductTile& tile) {
  return aligned(Blocking<S>(tile).sums() * sizeof(typename StepOf<S>::Sum));
}

// to = left + right
template <class Sum>
ALWAYS_INLINE void add(const Sum* left, const Sum* right, Sum* to, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes<Sum>) store(to + i, load(left + i) + load(right + i));
}

// Where a chunk stands: chunks are counted from the first element of their part.
struct ChunkPlace {
  unsigned part;
  int64_t k, taken;     // its first element, and how many it has
  bool first, last;     // of its part
  unsigned joined = 0;  // behind the part's last chunk, these levels are joined

  ChunkPlace() = default;
  ChunkPlace(const MatmulArgs& args, int64_t chunk, int64_t length) {
    const int64_t part_length = (args.k + args.parts - 1) / args.parts;
    const int64_t chunks = part_length > length ? (part_length + length - 1) / length : 1;
    part = unsigned(chunk / chunks);
    const int64_t end = args.k < (part + 1) * part_length ? args.k : (part + 1) * part_length;
    k = part * part_length + chunk % chunks * length;
    taken = end - k < length ? end - k : length;
    first = chunk % chunks == 0, last = k + taken == end;
    if (last) joined = joined_levels(part, unsigned(args.parts));
  }
};

// ---------------------------------------------------------------- output

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
    // The result is one column, whose elements are contiguous.
    MatmulArgs across = *tile.args;
    across.n = across.m, across.m = 1;
    across.added.column_stride = across.added.row_stride;
    write_row<Out>(across, tile.batch, 0, j, width, sums);
  } else {
    for (int64_t c = 0; c < width; c++) {
      Sum row[kTileRows];
      for (int64_t r = 0; r < height; r++) row[r] = sums[r * pitch + c];
      write_row<Out>(*tile.args, tile.batch, j + c, i, height, row);
    }
  }
}

// ---------------------------------------------------------------- the tile

// A factor's lanes from `lane` on, from element k on.
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
  // Whether the smallest exponents of two panels decide how they are multiplied.
  static constexpr bool kChooses = requires { typename Step::Careful; };

 public:
  TileProduct(const ProductTile& tile, const ProductChunks& chunks, void* workspace)
      : tile_(tile), chunks_(chunks), blocking_(tile) {
    char* memory = static_cast<char*>(workspace);
    const auto take = [&](int64_t bytes) { return memory += aligned(bytes), memory - aligned(bytes); };
    left_ = reinterpret_cast<Word*>(take(blocking_.left_bytes()));
    right_ = reinterpret_cast<Word*>(take(blocking_.right_bytes()));
    exponents_ = reinterpret_cast<uint32_t*>(take(blocking_.exponent_bytes()));
    chains_ = reinterpret_cast<Sum*>(take(blocking_.chain_bytes()));
    totals_ = reinterpret_cast<Sum*>(memory);
  }

  void run() {
    for (chunk_ = chunks_.begin; chunk_ < chunks_.end; chunk_++) {
      place_ = ChunkPlace(*tile_.args, chunk_, Blocking<S>::kChunk);
      k_ = place_.k, taken_ = place_.taken;
      if (chunks_.values)
        totals_ = reinterpret_cast<Sum*>(static_cast<char*>(chunks_.values) + chunk_ * sums_bytes<S>(tile_));
      for (first_ = 0; first_ < blocking_.row_panels; first_ += blocking_.block) {
        end_ = shorter(first_ + blocking_.block, blocking_.row_panels);
        exponent_ = UINT32_MAX;
        for (int64_t p = first_; p < end_; p++) {
          const Lanes<S> rows = lanes_of<S>(tile_.rows, tile_.batch, tile_.row + p * blocking_.height, k_);
          const int64_t height = blocking_.height_of(p);
          const uint32_t exponent = pack(rows, height, taken_, left(p), height, missing());
          if (exponent < exponent_) exponent_ = exponent;
        }
        if constexpr (!kChooses) {
          if (blocking_.rows <= kSkinnyRows) {
            skinny_rows();
            continue;
          }
        }
        for (int64_t q = 0; q < blocking_.column_panels; q++) panel(q);
      }
    }
  }

 private:
  static int64_t shorter(int64_t a, int64_t b) { return a < b ? a : b; }
  static int64_t steps(int64_t k) { return (k + Step::kDepth - 1) / Step::kDepth; }
  static constexpr uint32_t missing() {
    if constexpr (kChooses) return Step::kMissing;
    else return 0;
  }

  Word* left(int64_t p) const { return left_ + (p - first_) * blocking_.height * Blocking<S>::kSteps; }
  Lanes<S> columns(int64_t q, int64_t k) const {
    return lanes_of<S>(tile_.columns, tile_.batch, tile_.column + q * Blocking<S>::kColumns, k);
  }

  bool ends() const { return chunk_ + 1 == chunks_.end; }
  // Whether the sums of this chunk are stored as they are, for those of later chunks to be added.
  bool keeps() const { return chunks_.values || (place_.first && place_.joined == 0 && !ends()); }
  // The total that waits at a level. A part's own level is free for its chunks until it waits there itself.
  Sum* totals(int64_t p, int64_t q, int level) const {
    return totals_ + level * blocking_.sums() + (q * blocking_.row_panels + p) * blocking_.panel_sums();
  }
  Sum* totals(int64_t p, int64_t q) const { return totals(p, q, chunks_.values ? 0 : level_of(place_.part)); }
  // The sums of a panel of rows and a panel of columns, until the chunk is complete.
  Sum* sums(int64_t p, int64_t q) const {
    return keeps() ? totals(p, q) : chains_ + (p - first_) * blocking_.panel_sums();
  }

  void finish(int64_t p, int64_t q, Sum* sums) const {
    if (keeps()) return;
    const int64_t h = blocking_.height_of(p), width = blocking_.width_of(q), pitch = blocking_.pitch_of(q);
    if (!place_.first) {
      add(totals(p, q), sums, ends() || place_.joined ? sums : totals(p, q), h * pitch);
    }
    for (unsigned rest = place_.joined; rest; rest &= rest - 1) {
      const int level = __builtin_ctz(rest);
      add(totals(p, q, level), sums, ends() || rest & (rest - 1) ? sums : totals(p, q), h * pitch);
    }
    if (ends()) write<Out>(tile_, p * blocking_.height, q * Blocking<S>::kColumns, h, width, pitch, sums);
  }

  // A panel that can be read in place, because its layout is close to a packed one; otherwise null.
  ALWAYS_INLINE const Word* in_place(const Lanes<S>& from, int64_t pitch) const {
    if constexpr (sizeof(S) == sizeof(Word)) {
      if (blocking_.one_block() && from.stride == 1 && pitch <= from.count &&
          from.k_stride * int64_t(sizeof(S)) <= kNear) {
        return reinterpret_cast<const Word*>(from.at);
      }
    }
    return nullptr;
  }

  // The inner kernel for the block's rows and a panel of columns.
  ALWAYS_INLINE Chain<Step> chain_of(int64_t height, int64_t vectors, uint32_t exponent) const {
    if constexpr (kChooses) {
      if (!Step::exact(exponent_, exponent)) return kChains<typename Step::Careful>.of[height - 1][vectors - 1];
    }
    return kChains<Step>.of[height - 1][vectors - 1];
  }

  // Multiplies a panel of columns with all panels of rows of the block.
  void panel(int64_t q) const {
    const int64_t width = blocking_.width_of(q), pitch = blocking_.pitch_of(q);
    int64_t k = 0;
    do {  // once even if k is 0
      const int64_t taken = shorter(taken_ - k, Blocking<S>::kPanel);
      const int64_t slot = blocking_.one_block() ? 0 : Blocking<S>::kPanels * q + (k != 0);
      const Lanes<S> from = columns(q, k_ + k);
      Word* const packed = right_ + slot * Blocking<S>::kPanelSteps * Blocking<S>::kColumns;
      const Word* right = in_place(from, pitch);
      const int64_t stride = right ? from.k_stride : pitch;
      if (!right) {
        if (first_ == 0) exponents_[slot] = pack(from, width, taken, packed, pitch, 0);
        right = packed;
      }
      for (int64_t p = first_; p < end_; p++) {
        const int64_t h = blocking_.height_of(p);
        chain_of(h, pitch / kLanes<Word>, exponents_[slot])(left(p) + k / Step::kDepth * h, right, stride, steps(taken),
                                                            k == 0, sums(p, q));
        if (k + taken == taken_) finish(p, q, sums(p, q));
      }
      k += Blocking<S>::kPanel;
    } while (k < taken_);
  }

  // Multiplies all columns with the only panel of rows, a low one: columns are used too rarely to be packed.
  void skinny_rows() const {
    const Factor& factor = tile_.columns;
    const int64_t panels = kSkinnySums / blocking_.panel_sums();  // at a time
    int64_t q = 0;
    if (factor.lane_stride == 1) {
      // Whole panels.
      const int64_t reach = (tile_.columns.lanes - tile_.column) / Blocking<S>::kColumns;
      const int64_t whole = shorter(reach, blocking_.column_panels);
      while (q < whole) {
        const int64_t count = shorter(panels, whole - q);
        Sum* const kept = keeps() ? totals(0, q) : chains_;
        kSkinnyProducts<S>.along_lanes[blocking_.rows - 1](left_, columns(q, k_), count, taken_, kept);
        for (int64_t i = 0; i < count; i++) finish(0, q + i, kept + i * blocking_.panel_sums());
        q += count;
      }
    }
    for (; q < blocking_.column_panels; q++) {
      if (factor.k_stride == 1) {
        kSkinnyProducts<S>.along_k[blocking_.rows - 1](left_, columns(q, k_), blocking_.width_of(q), taken_,
                                                       sums(0, q));
        finish(0, q, sums(0, q));
      } else {
        panel(q);
      }
    }
  }

  const ProductTile& tile_;
  const ProductChunks& chunks_;
  const Blocking<S> blocking_;
  Word *left_, *right_;
  uint32_t exponent_, *exponents_;  // the smallest of the block's rows, and of each packed panel of columns
  Sum *chains_, *totals_;
  int64_t chunk_, k_, taken_;  // the chunk, its first element and how many it has
  ChunkPlace place_;
  int64_t first_, end_;  // the block's panels of rows
};

template <class S, class Out>
void multiply(const ProductTile& tile, const ProductChunks& chunks, void* workspace) {
  TileProduct<S, Out>(tile, chunks, workspace).run();
}

template <class S, class Out>
void fold(const ProductTile& tile, int64_t chunks, void* values) {
  using Sum = typename StepOf<S>::Sum;
  const Blocking<S> blocking(tile);
  for (int64_t q = 0; q < blocking.column_panels; q++) {
    for (int64_t p = 0; p < blocking.row_panels; p++) {
      const int64_t h = blocking.height_of(p), width = blocking.width_of(q), pitch = blocking.pitch_of(q);
      char* const first =
          static_cast<char*>(values) + (q * blocking.row_panels + p) * blocking.panel_sums() * int64_t(sizeof(Sum));
      Sum *sums = nullptr, *waiting[32];
      for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const ChunkPlace place(*tile.args, chunk, Blocking<S>::kChunk);
        Sum* const value = reinterpret_cast<Sum*>(first + chunk * sums_bytes<S>(tile));
        if (place.first) sums = value;
        else add(sums, value, sums, h * pitch);
        for (unsigned rest = place.joined; rest; rest &= rest - 1) {
          add(waiting[__builtin_ctz(rest)], sums, sums, h * pitch);
        }
        if (place.last) waiting[level_of(place.part)] = sums;
      }
      write<Out>(tile, p * blocking.height, q * Blocking<S>::kColumns, h, width, pitch, sums);
    }
  }
}

template <class S, class Out>
constexpr MatmulKernel kernel() {
  return {kTileRows,     Blocking<S>::kColumns, Blocking<S>::kChunk, workspace_bytes<S>,
          sums_bytes<S>, multiply<S, Out>,      fold<S, Out>};
}

// The kernels of all types, or of those only whose steps are `Only`.
template <class Only = void>
constexpr MatmulKernels make_matmul_kernels() {
  MatmulKernels kernels{};
  for (int dtype = 0; dtype < kDtypes; dtype++) {
    if (Dtype(dtype) == Dtype::boolean) continue;
    with_storage(Dtype(dtype), [&](auto tag) {
      using S = typename decltype(tag)::type;
      if constexpr (std::is_void_v<Only> || std::is_same_v<StepOf<S>, Only>) {
        kernels.own[dtype] = kernel<S, S>();
        if constexpr (sizeof(S) < 4) {
          kernels.wide[dtype] = kernel<S, std::conditional_t<std::is_integral_v<S>, int32_t, float>>();
        }
      }
    });
  }
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu::matmul
