// Tiles of 32 x 32 elements for operands that lie across the output, as a transposed matrix does: read along their own
// rows into shared memory, and from there along the output's.
#pragma once
#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "../elements.cuh"

namespace torch_reductions::cuda {

inline constexpr int kTile = 32, kTileRows = 8;  // a block has 32 x 8 threads

// The second dim of the tiles, which operands lie along it, and how many tiles a plane of both dims is.
struct Across {
  int rows = 0;  // the innermost dim itself: there is no such operand
  bool input = false, other = false;
  int64_t tiles_across = 0, tiles_down = 0;
};

// Operands with a stride of 1 along one and the same dim that is not the innermost.
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
  across.tiles_across = ceil_div(args.sizes[0], kTile), across.tiles_down = ceil_div(args.sizes[across.rows], kTile);
  return across;
}

template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    add_tiles(const __grid_constant__ AddArgs args, const __grid_constant__ Across across,
              const __grid_constant__ Adder<T> add) {
  __shared__ T tiles[2][kTile][kTile + 1];
  const int64_t width = args.sizes[0], height = args.sizes[across.rows];
  const int64_t column = blockIdx.x % across.tiles_across * kTile, above = blockIdx.x / across.tiles_across;
  const int64_t row = above % across.tiles_down * kTile;
  int64_t rest = above / across.tiles_down, stride = width, row_stride = 0, first = 0;
  Places at{0, 0};
  for (int d = 1; d < args.dims; stride *= args.sizes[d++]) {  // of the output
    if (d == across.rows) {
      row_stride = stride;
      continue;
    }
    const int64_t here = rest % args.sizes[d];
    rest /= args.sizes[d];
    at.input += here * args.input_strides[d], at.other += here * args.other_strides[d], first += here * stride;
  }
  const T* input = static_cast<const T*>(args.input) + at.input;
  const T* other = static_cast<const T*>(args.other) + at.other;
  const int64_t input_step = args.input_strides[across.rows], other_step = args.other_strides[across.rows];
  const int x = threadIdx.x % kTile, y = threadIdx.x / kTile;
#pragma unroll
  for (int j = y; j < kTile; j += kTileRows) {  // neighbouring threads along the rows' dim
    if (row + x >= height || column + j >= width) continue;
    if (across.input) tiles[0][j][x] = input[(row + x) * input_step + (column + j) * args.input_strides[0]];
    if (across.other) tiles[1][j][x] = other[(row + x) * other_step + (column + j) * args.other_strides[0]];
  }
  __syncthreads();
#pragma unroll
  for (int j = y; j < kTile; j += kTileRows) {  // neighbouring threads along the output
    if (row + j >= height || column + x >= width) continue;
    const T a = across.input ? tiles[0][x][j] : input[(row + j) * input_step + (column + x) * args.input_strides[0]];
    const T b = across.other ? tiles[1][x][j] : other[(row + j) * other_step + (column + x) * args.other_strides[0]];
    static_cast<T*>(args.output)[first + (row + j) * row_stride + column + x] = add(a, b);
  }
}

template <class T>
void add_by_tiles(const AddArgs& args, const Across& across, Context& context) {
  const int64_t planes = args.count / args.sizes[0] / args.sizes[across.rows];
  const int64_t blocks = planes * across.tiles_across * across.tiles_down;
  launch(add_tiles<T>, blocks, kTile * kTileRows, 0, context.stream, args, across, Adder<T>(args));
}

}  // namespace torch_reductions::cuda
