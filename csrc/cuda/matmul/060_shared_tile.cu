// shared_tile
// Changes: a block stages B x B tiles of a and b in shared memory; a thread still computes one element.
// Costs:   two barriers every B steps of k, and two loads from shared memory per multiply-add. Blocks below 32 threads
//          fill no warp: of 1 x 1 one lane in 32 works. A column-major a, or b, is loaded a column at a time by rows of
//          threads.
// Gains:   an element is loaded from global memory once per block, not once per thread: B times less traffic.
// Order:   one chain of fused multiply-adds over all of k, ascending, from +0.
// Needs:   7.5 and up; any layout; fewer than 2^31 tiles.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 5.
#include "ladder.h"
#include "textbook.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

// Edges: a thread beyond them loads the last row or column again, and does not store.
template <class T, int B>
__global__ void __launch_bounds__(B* B)
    multiply_shared_tiles(const __grid_constant__ MatmulArgs args, const __grid_constant__ Tiles tiles) {
  __shared__ T a_tile[B][B], b_tile[B][B];
  const Corner corner = corner_of_block<B, B>(tiles);
  const int y = threadIdx.x / B, x = threadIdx.x % B;
  const int64_t i = corner.i + y, j = corner.j + x;
  const T* a = element_of<T>(args.a, corner.batch, min(i, args.m - 1), x);
  const T* b = element_of<T>(args.b, corner.batch, y, min(j, args.n - 1));

  T sum = 0;
  for (int64_t rest = args.k; rest > 0; rest -= B) {
    if (x < rest) a_tile[y][x] = *a;
    if (y < rest) b_tile[y][x] = *b;
    a += B * args.a.column_stride, b += B * args.b.row_stride;
    __syncthreads();
    if (rest >= B) {
#pragma unroll
      for (int k = 0; k < B; k++) sum = multiply_add(a_tile[y][k], b_tile[k][x], sum);
    } else {
      for (int k = 0; k < rest; k++) sum = multiply_add(a_tile[y][k], b_tile[k][x], sum);
    }
    __syncthreads();
  }
  if (i < args.m && j < args.n) store_product<T>(args, corner.batch, i, j, sum);
}

}  // namespace

void shared_tile(const MatmulArgs& args, Context& context, int tile) {
  with_tile<1, 2, 4, 8, 16, 32>(tile, [&]<int B>(std::integral_constant<int, B>) {
    with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
      launch_tiles<B, B>(multiply_shared_tiles<T, B>, args, context, B * B);
    });
  });
}

}  // namespace torch_reductions::cuda::matmul
