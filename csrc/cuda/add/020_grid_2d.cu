// grid_2d
// Changes: nothing came before on the GPU: a thread adds one pair of elements, and its x and y in the grid are their
//          column and row. As in the textbook's kernel there is one test, no loop and no division.
// Costs:   the block's shape decides what a warp reads and how many threads are there. A warp of a block of 16 x 16
//          reads two rows of 16. A block of 2 x 2 is a warp with 4 of its 32 lanes, and of those a multiprocessor holds
//          32, with 128 threads of 2048. Of 32 x 32 it holds two, and the next begins only when the last warp of one
//          has ended. Threads beyond the last row or column have nothing to do: of one long row, 31 of 32 rows of a
//          block.
// Gains:   the matrix as it is thought of; a warp's 32 neighbours of a row are one access of 128 bytes.
// Order:   alpha other + input, rounded once.
// Needs:   7.5 and up; any layout. A block has 32 x 32, 16 x 16, 32 x 8, 128 x 1 or 2 x 2 threads. add_matrix counts
//          with 32 bits; add_matrices is for what needs 64, and for matrices in a third dim, which the grid's z counts.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 2: sumMatrixOnGPU2D.
#include <algorithm>

#include "../../common/ceil_div.h"
#include "elements.cuh"
#include "ladder.h"

namespace torch_reductions::cuda::add {
namespace {

constexpr int64_t kMostBlocks = 65535;  // in y, and in z

template <class T, class Index>
struct Operand {
  const T* data;
  Index column_stride, row_stride;

  __device__ __forceinline__ T operator()(Index x, Index y) const { return data[x * column_stride + y * row_stride]; }
};

// Two operands and their sum, which is contiguous.
template <class T, class Index>
struct Matrices {
  Operand<T, Index> input, other;
  T* output;
  Index columns, rows;

  // A thread's element.
  __device__ __forceinline__ void add_one(const Adder<T>& add) const {
    const Index x = Index(blockIdx.x) * blockDim.x + threadIdx.x, y = Index(blockIdx.y) * blockDim.y + threadIdx.y;
    if (x < columns && y < rows) output[x + y * columns] = add(input(x, y), other(x, y));
  }
  Matrices from_row(int64_t row) const {
    Matrices rest = *this;
    rest.input.data += row * input.row_stride, rest.other.data += row * other.row_stride, rest.output += row * columns;
    rest.rows -= Index(row);
    return rest;
  }
};
template <class T>
using Narrow = Matrices<T, uint32_t>;
template <class T>
using Wide = Matrices<T, int64_t>;

template <class T>
__global__ void add_matrix(const __grid_constant__ Narrow<T> matrix, const __grid_constant__ Adder<T> add) {
  matrix.add_one(add);
}

// around: the dims of the matrices, of which the grid's z takes those from `begin` on; `size` is that of one of them.
template <class T>
__global__ void add_matrices(const __grid_constant__ Wide<T> first, const __grid_constant__ AddArgs around,
                             int64_t begin, int64_t size, const __grid_constant__ Adder<T> add) {
  const int64_t i = begin + blockIdx.z;
  const Offsets at = offsets_of(around, i);
  Wide<T> matrix = first;
  matrix.input.data += at.input, matrix.other.data += at.other, matrix.output += i * size;
  matrix.add_one(add);
}

// Whether 32 bits are enough; the threads beyond the last row and column count on for less than a block.
template <class T>
bool is_narrow(const Wide<T>& of) {
  const int64_t x = of.columns - 1, y = of.rows - 1;
  const auto last = [&](const auto& operand) { return x * operand.column_stride + y * operand.row_stride; };
  return x + y * of.columns < INT32_MAX && last(of.input) < INT32_MAX && last(of.other) < INT32_MAX;
}
template <class T>
Operand<T, uint32_t> narrow(const Operand<T, int64_t>& of) {
  return {of.data, uint32_t(of.column_stride), uint32_t(of.row_stride)};
}

// The dims as columns, rows and what is around them: rows are what was merged into the first dim, or the second one.
AddArgs as_matrices(AddArgs args) {
  if (args.dims > 1 && args.sizes[0] == args.columns) return args;
  const auto insert = [&](int64_t (&values)[kAddDims], int64_t first, int64_t second) {
    std::copy_backward(values + 1, values + args.dims, values + args.dims + 1);
    values[0] = first, values[1] = second;
  };
  insert(args.input_strides, args.input_strides[0], args.columns * args.input_strides[0]);
  insert(args.other_strides, args.other_strides[0], args.columns * args.other_strides[0]);
  insert(args.sizes, args.columns, args.sizes[0] / args.columns);
  args.dims++;
  return args;
}

AddArgs without_matrices(AddArgs args) {
  for (int64_t* values : {args.sizes, args.input_strides, args.other_strides})
    std::copy(values + 2, values + args.dims, values);
  args.dims -= 2;
  if (args.dims == 0) args.dims = 1, args.sizes[0] = 1, args.input_strides[0] = args.other_strides[0] = 0;
  return args;
}

template <class T>
void add_in_blocks(const AddArgs& given, Context& context, unsigned width, unsigned height) {
  const AddArgs args = as_matrices(given), around = without_matrices(args);
  const auto operand = [](const void* data, const int64_t (&strides)[kAddDims]) {
    return Operand<T, int64_t>{static_cast<const T*>(data), strides[0], strides[1]};
  };
  const Wide<T> matrix{operand(args.input, args.input_strides), operand(args.other, args.other_strides),
                       static_cast<T*>(args.output), args.sizes[0], args.sizes[1]};
  const int64_t size = matrix.columns * matrix.rows, matrices = args.count / size;
  const int64_t across = ceil_div(matrix.columns, width);
  if (across > INT32_MAX) fail("more than 2^31 - 1 blocks in one launch");
  const Adder<T> add(args);
  for (int64_t begin = 0; begin < matrices; begin += kMostBlocks) {
    for (int64_t row = 0; row < matrix.rows; row += kMostBlocks * height) {
      const Wide<T> rest = matrix.from_row(row);
      const dim3 grid(unsigned(across), unsigned(std::min(ceil_div(rest.rows, height), kMostBlocks)),
                      unsigned(std::min(matrices - begin, kMostBlocks)));
      const dim3 block(width, height);
      if (matrices > 1 || !is_narrow(matrix)) {
        launch(add_matrices<T>, grid, block, 0, context.stream, rest, around, begin, size, add);
      } else {
        const Narrow<T> narrow_rest{narrow(rest.input), narrow(rest.other), rest.output, uint32_t(rest.columns),
                                    uint32_t(rest.rows)};
        launch(add_matrix<T>, grid, block, 0, context.stream, narrow_rest, add);
      }
    }
  }
}

}  // namespace

void grid_2d(const AddArgs& args, Context& context, int width, int height) {
  with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
    add_in_blocks<T>(args, context, unsigned(width), unsigned(height));
  });
}

}  // namespace torch_reductions::cuda::add
