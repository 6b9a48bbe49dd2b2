// one_element
// Changes: nothing came before on the GPU: a thread computes one element of the result.
// Costs:   two loads a multiply-add: each element of a is read n times, each of b m times; the caches save what they can.
// Gains:   no shared memory, no barrier; neighbours read neighbours of b, and the same element of a.
// Order:   one chain of fused multiply-adds over all of k, ascending, from +0.
// Needs:   7.5 and up; any layout.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 3.
#include "../../common/ceil_div.h"
#include "elements.cuh"
#include "ladder.h"

namespace torch_reductions::cuda {
namespace {

constexpr int kTileRows = 8, kTileColumns = 32;  // of a block: a warp has 32 neighbours of a row

template <class T, class Out>
__global__ void multiply_elements(const __grid_constant__ MatmulArgs args, unsigned tiles_m, unsigned tiles_n) {
  const int64_t batch = blockIdx.x / tiles_n / tiles_m;
  const int64_t i = int64_t(blockIdx.x / tiles_n % tiles_m) * kTileRows + threadIdx.x / kTileColumns;
  const int64_t j = int64_t(blockIdx.x % tiles_n) * kTileColumns + threadIdx.x % kTileColumns;
  if (i >= args.m || j >= args.n) return;
  const T* a = element_of<T>(args.a, batch, i, 0);
  const T* b = element_of<T>(args.b, batch, 0, j);
  ProductOf<T> sum = 0;
  for (int64_t k = 0; k < args.k; k++, a += args.a.column_stride, b += args.b.row_stride)
    sum = multiply_add(factor(*a), factor(*b), sum);
  store_product<Out>(args, batch, i, j, sum);
}

}  // namespace

void one_element(const MatmulArgs& args, Context& context) {
  const int64_t tiles_m = ceil_div(args.m, int64_t(kTileRows)), tiles_n = ceil_div(args.n, int64_t(kTileColumns));
  with_product_types(args.dtype, args.output_dtype, [&]<class T, class Out>(Tag<T>, Tag<Out>) {
    launch(multiply_elements<T, Out>, args.batch * tiles_m * tiles_n, kTileRows * kTileColumns, 0, context.stream, args,
           unsigned(tiles_m), unsigned(tiles_n));
  });
}

}  // namespace torch_reductions::cuda
