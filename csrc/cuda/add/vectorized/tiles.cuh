// Tiles of 32 x 32 or 64 x 64 elements for operands that lie across the output, as a transposed matrix does: read along
// their own rows into shared memory, and from there along the output's.
#pragma once
#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "../elements.cuh"

namespace torch_reductions::cuda::add {

inline constexpr unsigned kTileThreads = 256;

// The second dim of the tiles, which operands lie along it, and how many tiles a plane of the two dims has.
struct Across {
  int rows = 0;  // the innermost dim itself: there is no such operand
  bool input = false, other = false;
  int64_t tiles_across = 0, tiles_down = 0;
};

constexpr int64_t kLeastSide = 8;  // of a plane: a block for each of many smaller ones would have little to do

// Operands with a stride of 1 along one and the same dim that is not the innermost, in planes that are worth tiles.
inline Across find_across(const AddArgs& args) {
  Across across;
  const auto lies = [&](const int64_t (&strides)[kAddDims]) {
    if (strides[0] == 0 || strides[0] == 1) return false;
    for (int d = 1; d < args.dims; d++) {
      if (strides[d] == 1 && (across.rows == 0 || across.rows == d)) return across.rows = d, true;
    }
    return false;
  };
  across.input = lies(args.input_strides), across.other = lies(args.other_strides);
  const bool worth = args.sizes[0] >= kLeastSide && args.sizes[across.rows] >= kLeastSide;
  return worth ? across : Across();
}

// The side of a tile, and how a block of kTileThreads passes over it.
template <class T>
struct TileOf {
  static constexpr int kSide = sizeof(T) > 4 ? 32 : 64, kDown = int(kTileThreads) / kSide, kPasses = kSide / kDown;
  // Lanes below each other access all banks.
  using Shared = T[kSide][kSide + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
};

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    add_tiles(const __grid_constant__ AddArgs args, const __grid_constant__ Across across,
              const __grid_constant__ Adder<T> add) {
  using Tile = TileOf<T>;
  __shared__ typename Tile::Shared tiles[2];
  const int64_t width = args.sizes[0], height = args.sizes[across.rows];
  const int64_t column = blockIdx.x % across.tiles_across * Tile::kSide, above = blockIdx.x / across.tiles_across;
  const int64_t row = above % across.tiles_down * Tile::kSide;
  int64_t rest = above / across.tiles_down, stride = width, row_stride = 0, first = 0;
  Offsets at{0, 0};
  for (int d = 1; d < args.dims; stride *= args.sizes[d++]) {  // of the output
    if (d == across.rows) {
      row_stride = stride;
      continue;
    }
    const int64_t here = rest % args.sizes[d];
    rest /= args.sizes[d];
    at.input += here * args.input_strides[d], at.other += here * args.other_strides[d], first += here * stride;
  }
  const int x = int(threadIdx.x) % Tile::kSide, y = int(threadIdx.x) / Tile::kSide;
  // All loads are in flight at once: neighbouring threads along the rows' dim of an operand that lies across.
  const auto load = [&](T(&values)[Tile::kPasses], const void* data, const int64_t (&strides)[kAddDims], bool lies) {
    const int64_t down = strides[across.rows], along = strides[0];
    const T* const from = static_cast<const T*>(data) + row * down + column * along +
                          (lies ? x * down + y * along : y * down + x * along);
    const int64_t step = (lies ? along : down) * Tile::kDown;
    const int64_t left = (lies ? width - column : height - row) - y;  // of the passes
    const bool there = x < (lies ? height - row : width - column);
#pragma unroll
    for (int pass = 0; pass < Tile::kPasses; pass++)
      if (there && pass * Tile::kDown < left) values[pass] = from[pass * step];
  };
  T a[Tile::kPasses], b[Tile::kPasses];
  load(a, static_cast<const T*>(args.input) + at.input, args.input_strides, across.input);
  load(b, static_cast<const T*>(args.other) + at.other, args.other_strides, across.other);
#pragma unroll
  for (int pass = 0; pass < Tile::kPasses; pass++) {
    if (across.input) tiles[0][y + pass * Tile::kDown][x] = a[pass];
    if (across.other) tiles[1][y + pass * Tile::kDown][x] = b[pass];
  }
  __syncthreads();
  T* const to = static_cast<T*>(args.output) + first + (row + y) * row_stride + column + x;
#pragma unroll
  for (int pass = 0; pass < Tile::kPasses; pass++) {  // neighbouring threads along the output
    const int j = y + pass * Tile::kDown;
    if (row + j >= height || column + x >= width) continue;
    to[pass * Tile::kDown * row_stride] =
        add(across.input ? tiles[0][x][j] : a[pass], across.other ? tiles[1][x][j] : b[pass]);
  }
}

template <class T>
void add_by_tiles(const AddArgs& args, Across across, Context& context) {
  constexpr int kSide = TileOf<T>::kSide;
  across.tiles_across = ceil_div(args.sizes[0], kSide), across.tiles_down = ceil_div(args.sizes[across.rows], kSide);
  const int64_t planes = args.count / args.sizes[0] / args.sizes[across.rows];
  const int64_t blocks = planes * across.tiles_across * across.tiles_down;
  launch(add_tiles<T>, blocks, kTileThreads, 0, context.stream, args, across, Adder<T>(args));
}

}  // namespace torch_reductions::cuda::add
