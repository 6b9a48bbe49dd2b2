// grid_stride
// Changes: only as many blocks as run at once; a thread advances by the width of the grid.
// Costs:   a loop, whose next loads wait for the last ones unless the compiler hoists them.
// Gains:   blocks start once, whatever the size; one launch serves any number of elements. On an H100 grid_1d is
//          faster all the same (docs/ladder.md, Book and machine).
// Order:   alpha other + input, rounded once.
// Needs:   7.5 and up; any layout.
// See:     Harris, CUDA Pro Tip: Write Flexible Kernels with Grid-Stride Loops, 2013.
#include <algorithm>

#include "../../common/ceil_div.h"
#include "elements.cuh"
#include "ladder.h"

namespace torch_reductions::cuda::add {
namespace {

constexpr unsigned kThreads = 256;
constexpr int64_t kBlocks = 2048 / kThreads;  // of a multiprocessor: all of its threads

template <class T>
__global__ void add_by_strides(const __grid_constant__ AddArgs args, const __grid_constant__ Adder<T> add) {
  const int64_t step = int64_t(gridDim.x) * kThreads;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < args.count; i += step) add_element(args, add, i);
}

}  // namespace

void grid_stride(const AddArgs& args, Context& context) {
  const int64_t blocks = std::min(ceil_div(args.count, kThreads), kBlocks * multiprocessors(context.device));
  with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
    launch(add_by_strides<T>, blocks, kThreads, 0, context.stream, args, Adder<T>(args));
  });
}

}  // namespace torch_reductions::cuda::add
