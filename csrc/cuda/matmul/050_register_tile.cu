// register_tile
// Changes: a thread computes a tile of T x T elements; every 8th row and column, so that neighbours still read
//          neighbours.
// Costs:   T^2 registers for the sums, of the 255 that a thread may have: from 16 on they do not fit, and each
//          multiply-add goes through local memory, which is the lesson. And T^2 times fewer threads: at 1024 x 1024 and
//          64 only 256.
// Gains:   2 T loads for T^2 multiply-adds: each loaded element is used T times from a register.
// Order:   one chain of fused multiply-adds over all of k, ascending, from +0.
// Needs:   7.5 and up; any layout; of 64, memory for the tiles of all threads that a device can hold.
// See:     Volkov, Better Performance at Lower Occupancy, GTC 2010.
// Local:   multiply_register_tiles (16384 bytes): tiles of 16 x 16 and more do not fit into registers, which is what
//          they show.
#include "ladder.h"
#include "textbook.cuh"

namespace torch_reductions::cuda::matmul {
namespace {

constexpr int kSide = 8;  // of the square of a block's threads

// Edges: for what is beyond them a thread reads the last row or column again, and stores nothing.
template <class T, int N>
__global__ void __launch_bounds__(kSide* kSide)
    multiply_register_tiles(const __grid_constant__ MatmulArgs args, const __grid_constant__ Tiles tiles) {
  constexpr int kUnrolled =
      N <= 16 ? N : 1;  // rows of the tile, and a long k of the small ones: the code would grow too large
  const Corner corner = corner_of_block<kSide * N, kSide * N>(tiles);
  const int64_t first_i = corner.i + threadIdx.x / kSide, first_j = corner.j + threadIdx.x % kSide;
  if (first_i >= args.m || first_j >= args.n) return;
  const auto row = [&](int r) { return min(first_i + r * kSide, args.m - 1) * args.a.row_stride; };
  const auto column = [&](int c) { return min(first_j + c * kSide, args.n - 1) * args.b.column_stride; };

  T sums[N][N] = {};
  const T* a = element_of<T>(args.a, corner.batch, 0, 0);
  const T* b = element_of<T>(args.b, corner.batch, 0, 0);
#pragma unroll N <= 8 ? 2 : 1
  for (int64_t k = 0; k < args.k; k++, a += args.a.column_stride, b += args.b.row_stride) {
    T y[N];
#pragma unroll
    for (int c = 0; c < N; c++) y[c] = b[column(c)];
#pragma unroll kUnrolled
    for (int r = 0; r < N; r++) {
      const T x = a[row(r)];
#pragma unroll
      for (int c = 0; c < N; c++) sums[r][c] = multiply_add(x, y[c], sums[r][c]);
    }
  }

#pragma unroll kUnrolled
  for (int r = 0; r < N; r++) {
    const int64_t i = first_i + r * kSide;
    if (i >= args.m) break;
#pragma unroll kUnrolled
    for (int c = 0; c < N; c++) {
      const int64_t j = first_j + c * kSide;
      if (j < args.n) store_product<T>(args, corner.batch, i, j, sums[r][c]);
    }
  }
}

}  // namespace

void register_tile(const MatmulArgs& args, Context& context, int tile) {
  with_tile<1, 2, 4, 8, 16, 32, 64>(tile, [&]<int N>(std::integral_constant<int, N>) {
    with_textbook_types(args.dtype, [&]<class T>(std::type_identity<T>) {
      launch_tiles<kSide * N, kSide * N>(multiply_register_tiles<T, N>, args, context, kSide * kSide);
    });
  });
}

}  // namespace torch_reductions::cuda::matmul
