// What was measured, as data: the shapes of tiles and of skinny products, and how fast they are. Nothing here changes a
// bit of a result.
#pragma once
#include <cstdint>

#include "../../../common/dtype.h"

namespace torch_reductions::cuda::matmul {

// M x N results of a block, WarpsM x WarpsN warps; `Blocks` of them share a multiprocessor, which reaches Rate
// hundredths of its peak when it holds at least Fill of them.
template <int M, int N, int WarpsM, int WarpsN, int Blocks, int Fill, int Rate>
struct TileShape {
  static constexpr int kM = M, kN = N, kWarpsM = WarpsM, kWarpsN = WarpsN, kThreads = 32 * WarpsM * WarpsN;
  static constexpr int kBlocks = Blocks, kFill = Fill, kRate = Rate;
  static constexpr bool kShallow = false, kTensor = false;
  static constexpr int kStages = 0;           // of which copies are in flight or read; 0: tile_stages()
  static constexpr int kAhead = 1;            // steps of k, that a thread loads before it multiplies them
  static constexpr bool kPredicated = false;  // copies of lines along k, so that there may be fewer than a tile has
};
template <class... T>
struct List {};

// With all of k in shared memory at once; LanesN lanes of a warp lie along the columns. OutByte: tenths of what a byte
// of a result costs on its way to memory (direct_byte()).
template <int M, int N, int WarpsM, int WarpsN, int LanesN, int Blocks, int Fill, int Rate, int OutByte>
struct ShallowTileShape : TileShape<M, N, WarpsM, WarpsN, Blocks, Fill, Rate> {
  static constexpr int kLanesN = LanesN, kOutByte = OutByte;
  static constexpr bool kShallow = true;
};
using WideShallowTile = ShallowTileShape<64, 128, 4, 1, 16, 4, 2, 88, 61>;
using SquareShallowTile = ShallowTileShape<64, 64, 2, 2, 8, 5, 2, 68, 45>;
using HighShallowTile = ShallowTileShape<128, 32, 4, 1, 8, 5, 1, 80, 81>;
using LowShallowTile = ShallowTileShape<32, 128, 4, 1, 16, 5, 2, 63, 19>;

using LargeTile = TileShape<128, 128, 2, 2, 2, 2, 84>;
using MiddleTile = TileShape<128, 64, 2, 2, 3, 2, 86>;
using SmallTile = TileShape<64, 64, 1, 2, 4, 2, 68>;
using WideTile = TileShape<128, 64, 2, 2, 2, 1, 53>;  // of 8 bytes an element
// Which look further ahead, because they have few multiplications between two loads.
struct TinyTile : TileShape<32, 32, 1, 2, 8, 3, 49> {
  static constexpr int kAhead = 3;
};
// For results so small that a multiprocessor has a block or two: more warps, and more stages in flight.
struct EarlyTile : TileShape<32, 32, 1, 4, 4, 2, 38> {
  static constexpr int kAhead = 3, kStages = 6;
};
// Whose copies are predicated: for results of fewer lines than a tile, in operands that lie along k.
struct LowTile : EarlyTile {
  static constexpr bool kPredicated = true;
};
// The same for any number of the other operand's lines.
template <int M, int N, int WarpsM, int WarpsN, int Blocks, int Fill, int Rate>
struct PredicatedTileShape : TileShape<M, N, WarpsM, WarpsN, Blocks, Fill, Rate> {
  static constexpr bool kPredicated = true;
};
using FlatTile = PredicatedTileShape<64, 128, 1, 4, 3, 1, 82>;
using FewRowsTile = PredicatedTileShape<32, 128, 1, 4, 4, 1, 68>;
using FewColumnsTile = PredicatedTileShape<128, 32, 4, 1, 4, 1, 67>;
// Of float64 on tensor cores, as high as wide; the rate is of DFMA's peak, which is half of theirs.
template <int Lines, int WarpsM, int WarpsN, int Blocks, int Fill, int Rate>
struct DmmaTileShape : TileShape<Lines, Lines, WarpsM, WarpsN, Blocks, Fill, Rate> {
  static constexpr bool kTensor = true;
};
using DmmaTile = DmmaTileShape<128, 2, 4, 1, 1, 145>;
using SmallDmmaTile = DmmaTileShape<64, 2, 2, 2, 2, 138>;
using TinyDmmaTile = DmmaTileShape<32, 2, 1, 4, 2, 50>;

template <class T>
struct Tuning {  // of elements that are widened as they are loaded
  using Tiles = List<SmallTile>;
};
template <>
struct Tuning<float> {
  using Tiles = List<LargeTile, MiddleTile, SmallTile, TinyTile, EarlyTile, LowTile, FlatTile, FewRowsTile,
                     FewColumnsTile, WideShallowTile, SquareShallowTile, HighShallowTile, LowShallowTile>;
};
template <>
struct Tuning<uint32_t> {  // half the rate of float's: more threads per block gain nothing
  using Tiles = List<MiddleTile, SmallTile, EarlyTile, LowTile>;
};
template <>
struct Tuning<double> {
  using Tiles = List<DmmaTile, SmallDmmaTile, TinyDmmaTile, WideTile, SmallTile, EarlyTile, LowTile>;
};
template <>
struct Tuning<uint64_t> {
  using Tiles = List<SmallTile, EarlyTile, LowTile>;
};

// How much of k a tile's stage holds, and how many stages are in flight or read. They hold half in square tiles where
// the rows of both panels are padded: a second large block would have no room beside the totals, and in small ones
// ptxas would put branches around that many copies.
HOST_DEVICE constexpr int tile_depth(int bytes, bool halved) { return bytes == 8 || halved ? 8 : 16; }
HOST_DEVICE constexpr int tile_stages(int bytes, int threads, bool halved) {
  return (bytes == 4 && threads == 64) || halved ? 4 : 3;  // of 8 bytes 4 would pass what 7.5 has
}
inline constexpr int kPartDepth = 16;           // parts of a multiple of it are whole stages, of any tile
inline constexpr int64_t kPartLines = 17;       // rows and columns, from which tiles take parts
inline constexpr int64_t kMostDepth = 1 << 30;  // of a block: its stages are counted by an int
inline constexpr int kBurst = 5;                // copies that a thread issues together, between its multiplications

// A warp of a skinny product computes 32 results of each row, one per lane, and at most kSkinnyRows rows; a stage holds
// kSkinnyDepth of k.
inline constexpr int kSkinnyDepth = 32, kSkinnyRows = 4;
// Blocks of a multiprocessor, up to which they copy a chunk of few lines at once. Warps of a skinny product that copy
// element by element are slower sooner, and so are tiles of which few lines use little; of more lines tiles are faster.
HOST_DEVICE constexpr int64_t few_blocks(int64_t few, int64_t k, int bytes, bool in_vectors) {
  if (bytes == 4 && few <= 8 && k >= 96 && (few > kSkinnyRows || !in_vectors)) return INT32_MAX;
  if (bytes == 8 && few > 1 && few <= kSkinnyRows && k >= kProductChunk) return INT32_MAX;
  if (bytes == 4 && few <= kSkinnyRows && !in_vectors) return 7;
  return few <= 8 || k <= 32 ? 2 : 1;
}
inline constexpr int64_t kMostFewBlocks = 4;  // of a multiprocessor, for which stages leave room
inline constexpr int kSkinnySpread = 4;  // chunks, from which spreading them over blocks may pay for a second launch
HOST_DEVICE constexpr int skinny_stages(int rows) { return rows == 4 ? 4 : 3; }
HOST_DEVICE constexpr int skinny_warps(int bytes) { return 64 / bytes; }  // per block at most, each with a chunk

// Few lines by many have a thread for each of the many: up to which k, and from how many of a multiprocessor on.
inline constexpr int kLeastFew = 4, kMostFew = 8, kMostShortDepth = 64;
inline constexpr int64_t kShortLinesOfSm = 64;
// Or if there are many more of them.
inline constexpr int kLeastFewOfMany = 2, kMostShortDepthOfMany = 128;
inline constexpr int64_t kManyShortLinesOfSm = 512;

// From how many rows or columns on a product is a shallow one.
inline constexpr int kShallowLeast = 64;
// Of float32, up to how many rows or columns, or with fewer than how many results: tiles take more.
inline constexpr int kShallowFew = 32, kShallowResults = 1 << 18;
inline constexpr int kShallowNarrow = 16;  // columns, up to which lanes lie along the rows
inline constexpr int kShallowIdle = 24;    // up to which, of float32, too many lanes along the columns have none
inline constexpr int kShallowBlocks = 4;   // of a multiprocessor, that are better than more rows a warp
// Rows of a warp, at most (log2): fewer where a row of the result ends within a sector of memory, whose other half another
// block should write soon.
HOST_DEVICE constexpr int most_log_shallow_rows(int bytes, bool whole_sectors) {
  return whole_sectors ? 5 : bytes == 4 ? 3 : 4;
}
// Up to which k a tile may have all of it at once: where other tiles store results in vectors, and elsewhere.
inline constexpr int kShallowTileDepth = 64, kMostShallowTileDepth = 96;

// May a result have fewer lines than a tile, of an operand whose lines are neighbours in memory, without a check of every
// stage? Large tiles and those in parts have no register for that.
template <class Shape>
HOST_DEVICE constexpr bool takes_fewer_lines(bool in_parts) {
  return !std::is_same_v<Shape, LargeTile> && !in_parts;
}

// May what is added be loaded in vectors, on the way from registers to memory? Elsewhere there is no register for that.
template <class P, class Shape>
HOST_DEVICE constexpr bool adds_vectors(bool in_parts) {
  constexpr int kResults = Shape::kM * Shape::kN;
  return std::is_floating_point_v<P> && (Shape::kTensor || (!in_parts && kResults > 1024 && kResults <= 8192));
}

// What is left of a tile's rate where every stage is checked, because it is larger than the result.
inline constexpr double kEdgeRate = 0.5;
// And of small tiles', where elements are copied one by one.
inline constexpr double kSingleRate = 0.9;
// A stage waits for the one before: what a step of k takes beside its products.
inline constexpr double kStepStart = 200;
// How much longer LowShallowTile takes where most of its columns lie outside, or columns are copied one by one.
inline constexpr double kSlowLow = 1.2;
// Up to how many lines, or elements of them, where tiles on tensor cores are slower than blocks that take few lines.
inline constexpr int64_t kFewOfTensor = 8, kFewElementsOfTensor = 4096;

// What a block costs to start, and a result on its way to memory for each of its bytes, as products of float32 that a
// multiprocessor would compute: where registers are stored as they are, or by way of shared memory, then so many times
// as much in tiles as large as leave no room for other blocks, with which stores overlap.
inline constexpr double kBlockStart = 5.5e4, kOutByte = 18, kLargeOut = 1.3;
// Of float32 less, unless k is shorter than a stage: then every copy is checked.
HOST_DEVICE constexpr double direct_byte(int bytes, int64_t k) {
  return bytes == 4 && k >= tile_depth(bytes, false) ? 7.3 : 13;
}
inline constexpr double kShallowStart = 8e4;  // of a block with all of k at once
inline constexpr double kTensorStart = 2e5;   // of a block on tensor cores: its fragments lie apart in memory

}  // namespace torch_reductions::cuda::matmul
