// one_element
// Changes: nothing came before on the GPU: a thread computes one element of the result.
// Costs:   two loads per multiply-add: each element of a is read n times, each of b m times; the caches save what they
//          can.
// Gains:   no shared memory, no barrier; neighbours read neighbours of b, and the same element of a.
// Order:   one chain of fused multiply-adds over all of k, ascending, from +0.
// Needs:   7.5 and up; any layout.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 3.
#include "ladder.h"
#include "textbook.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

constexpr int kTileRows = 8, kTileColumns = 32;  // of a block: a warp has 32 neighbours of a row

template <class T, class Out>
__global__ void multiply_elements(const __grid_constant__ MatmulArgs args, const __grid_constant__ Tiles tiles) {
  const Corner corner = corner_of_block<kTileRows, kTileColumns>(tiles);
  const int64_t i = corner.i + threadIdx.x / kTileColumns, j = corner.j + threadIdx.x % kTileColumns;
  if (i >= args.m || j >= args.n) return;
  const T* a = element_of<T>(args.a, corner.batch, i, 0);
  const T* b = element_of<T>(args.b, corner.batch, 0, j);
  ProductOf<T> sum = 0;
  for (int64_t k = 0; k < args.k; k++, a += args.a.column_stride, b += args.b.row_stride)
    sum = multiply_add(factor(*a), factor(*b), sum);
  store_product<Out>(args, corner.batch, i, j, sum);
}

}  // namespace

void one_element(const MatmulArgs& args, Context& context) {
  with_product_types(
      args.dtype, args.output_dtype, [&]<class T, class Out>(std::type_identity<T>, std::type_identity<Out>) {
        launch_tiles<kTileRows, kTileColumns>(multiply_elements<T, Out>, args, context, kTileRows * kTileColumns);
      });
}

}  // namespace torch_reductions::cuda::matmul
