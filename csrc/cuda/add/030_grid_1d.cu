// grid_1d
// Changes: one dimension: the elements are counted through all rows, and a thread adds one of them.
// Costs:   one block per 256 elements: each starts and ends for 1 KB of output. All elements are counted with 64 bits,
//          whose products and comparisons are several instructions where those of grid_2d are one; where a dim cannot
//          be merged, each thread divides by its size.
// Gains:   no threads idle beside a row; only the last block has idle threads.
// Order:   alpha other + input, rounded once.
// Needs:   7.5 and up; any layout.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 2: sumMatrixOnGPU1D.
#include "../../common/ceil_div.h"
#include "elements.cuh"
#include "ladder.h"

namespace torch_reductions::cuda::add {
namespace {

constexpr unsigned kThreads = 256;

template <class T>
__global__ void add_elements(const __grid_constant__ AddArgs args, const __grid_constant__ Adder<T> add) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < args.count) add_element(args, add, i);
}

}  // namespace

void grid_1d(const AddArgs& args, Context& context) {
  with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
    launch(add_elements<T>, ceil_div(args.count, kThreads), kThreads, 0, context.stream, args, Adder<T>(args));
  });
}

}  // namespace torch_reductions::cuda::add
