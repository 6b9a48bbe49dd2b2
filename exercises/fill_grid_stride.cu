// Fill in: the grid has at most as many blocks as run at once. Each thread adds one element here; let it go on until all
// elements are done, each by exactly one thread.
// Check: python -m torch_reductions try --check fill_grid_stride [FILE]
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
  // Your code: make a loop of this.
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < args.count) add_element(args, add, i);
}

}  // namespace

void grid_stride(const AddArgs& args, Context& context) {
  const int64_t blocks = std::min(ceil_div(args.count, kThreads), kBlocks * multiprocessors(context.device));
  with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
    launch(add_by_strides<T>, blocks, kThreads, 0, context.stream, args, Adder<T>(args));
  });
}

}  // namespace torch_reductions::cuda::add
