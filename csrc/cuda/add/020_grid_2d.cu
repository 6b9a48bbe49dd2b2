// grid_2d
// Changes: nothing came before on the GPU: a thread adds one pair of elements, found by its row and column.
// Costs:   threads beside the last row and column have nothing to do: of one long row, 31 of 32 rows of a block.
// Gains:   the matrix as it is thought of; a warp's 32 neighbours of a row are one access of 128 bytes.
// Order:   alpha other + input, rounded once.
// Needs:   7.5 and up; any layout. A block's shape is the rung's: 32 x 32, 16 x 16, 32 x 8 or 128 x 1 threads.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 2: sumMatrixOnGPU2D.
#include <algorithm>

#include "../../common/ceil_div.h"
#include "elements.cuh"
#include "ladder.h"

namespace torch_reductions::cuda::add {
namespace {

constexpr int64_t kMostRows = 65535;  // of blocks: what a grid may have in y

template <class T>
__global__ void add_matrices(const __grid_constant__ AddArgs args, const __grid_constant__ Adder<T> add) {
  const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, rows = args.count / args.columns;
  if (column >= args.columns) return;
  for (int64_t row = int64_t(blockIdx.y) * blockDim.y + threadIdx.y; row < rows; row += int64_t(gridDim.y) * blockDim.y)
    add_element(args, add, row * args.columns + column);
}

void launch_blocks(const AddArgs& args, Context& context, unsigned width, unsigned height) {
  const int64_t across = ceil_div(args.columns, width), down = ceil_div(args.count / args.columns, height);
  if (across > INT32_MAX) fail("more than 2^31 - 1 blocks in one launch");
  const dim3 grid(unsigned(across), unsigned(std::min(down, kMostRows)));
  with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
    launch(add_matrices<T>, grid, dim3(width, height), 0, context.stream, args, Adder<T>(args));
  });
}

}  // namespace

void grid_2d(const AddArgs& args, Context& context) { launch_blocks(args, context, 32, 32); }
void grid_2d_16x16(const AddArgs& args, Context& context) { launch_blocks(args, context, 16, 16); }
void grid_2d_32x8(const AddArgs& args, Context& context) { launch_blocks(args, context, 32, 8); }
void grid_2d_128x1(const AddArgs& args, Context& context) { launch_blocks(args, context, 128, 1); }

}  // namespace torch_reductions::cuda::add
