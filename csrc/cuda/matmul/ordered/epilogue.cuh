// What a block of tiles does with its sums: it adds the totals of chunks and parts before, and stores its part of the
// result. The kernels differ in where a thread's sums stand in the tile: vector x of 16 bytes at place.row(x) and
// place.column(x), and kInRow of them, vector(r, 0), vector(r, 1), ..., in the same row.
#pragma once
#include "../tile_scheduler.cuh"
#include "../totals.cuh"
#include "operand.cuh"
#include "tuning.h"

namespace torch_reductions::cuda::matmul {

template <class T>
struct TileJob {
  MatmulArgs args;  // where k is split, the output is the chunks' partials
  Operand<T> a, b;
  TileSchedule schedule;
  bool splits_k;  // each chunk's sums go to a partial
  bool direct;    // from registers to memory, 16 aligned bytes at a time; or else by way of shared memory, one by one
  // In parts, of `part` elements of k, a whole number of stages: how many, and where totals wait, at each level a tile
  // for each block.
  unsigned parts;
  int part;
  ProductOf<T>* waiting;
};

template <class P>
using Vector16 = AlignedVector<P, 16 / int(sizeof(P))>;

// A tile that reaches beyond the result is moved inside: then its first rows or columns are another block's.
template <class T, class Shape>
struct TilePlace : TileCoord {
  int64_t i, j;

  __device__ __forceinline__ TilePlace(const TileJob<T>& job, unsigned tile)
      : TileCoord(job.args, job.schedule, tile),
        i(max(min(int64_t(row) * Shape::kM, job.args.m - Shape::kM), int64_t(0))),
        j(max(min(int64_t(column) * Shape::kN, job.args.n - Shape::kN), int64_t(0))) {}
};

// Joins the sums of a chunk with what waits for them: `totals` of the part's chunks before, and what is left of a part
// that ends. Unless all ends, they wait themselves.
template <class T, class Shape, int AtOnce, class P, size_t N>
__device__ __forceinline__ void join_part(const TileJob<T>& job, P (&sums)[N], Vector16<P>* totals, unsigned part,
                                          bool begins, bool part_ends, bool ends) {
  const auto waiting_at = [&](int level) {
    return reinterpret_cast<Vector16<P>*>(job.waiting +
                                          (int64_t(level) * gridDim.x + blockIdx.x) * (Shape::kM * Shape::kN)) +
           threadIdx.x;
  };
  if (!begins) add_totals<Shape::kThreads, AtOnce>(sums, totals);
  if (part_ends) {
    unsigned levels = joined_levels(part, job.parts);
#pragma unroll 1
    for (int level = 0; levels != 0; level++, levels >>= 1)
      if (levels & 1) add_totals<Shape::kThreads, AtOnce>(sums, waiting_at(level));
  }
  if (ends) return;
  if (part_ends) keep_totals<Shape::kThreads>(sums, waiting_at(level_of(part)));
  else keep_totals<Shape::kThreads>(sums, totals);
}

// Vector x of the sums, or of the totals and the sums.
template <class Shape, class P, size_t N>
__device__ __forceinline__ Vector16<P> folded(const P (&sums)[N], const Vector16<P>* totals, bool folds, int x) {
  constexpr int kV = 16 / int(sizeof(P));
  Vector16<P> vector;
#pragma unroll
  for (int v = 0; v < kV; v++) vector.element[v] = sums[x * kV + v];
  if (folds) {
    vector = totals[x * Shape::kThreads];
#pragma unroll
    for (int v = 0; v < kV; v++) vector.element[v] += sums[x * kV + v];
  }
  return vector;
}

// AtOnce: how many loads may be in flight, where registers do not hold all.
template <class Shape, int AtOnce, class P, size_t N>
__device__ __forceinline__ void fold_totals(const P (&sums)[N], Vector16<P>* totals, bool folds) {
  constexpr int kVectors = int(N * sizeof(P) / 16);
#pragma unroll
  for (int x = 0; x < kVectors; x++) {
    if (AtOnce < kVectors && x % AtOnce == 0) __syncwarp();
    totals[x * Shape::kThreads] = folded<Shape>(sums, totals, folds, x);
  }
}

// chunk: of those of the block's piece of k.
template <class Out, class Shape, class T, class Place, class P, size_t N>
__device__ __forceinline__ void store_tile(const TileJob<T>& job, unsigned tile, int chunk, const Place& place,
                                           const P (&sums)[N], const Vector16<P>* totals, bool folds) {
  constexpr int kV = 16 / int(sizeof(P)), kVectors = int(N) / kV;
  const MatmulArgs& args = job.args;
  const TilePlace<T, Shape> here(job, unsigned(opaque(int(tile))));  // again, or the loop would keep registers for it
  const int first_row = int(int64_t(here.row) * Shape::kM - here.i);
  const int first_column = int(int64_t(here.column) * Shape::kN - here.j);
  const int rows = int(min(args.m, int64_t(Shape::kM))), columns = int(min(args.n, int64_t(Shape::kN)));
  const auto own_row = [&](int row) { return row < rows && row >= first_row; };
  const auto own_column = [&](int column) { return column < columns && column >= first_column; };
  const int64_t partial = job.splits_k ? here.piece * (job.schedule.k.length / kProductChunk) + chunk : 0;
  const int64_t batch = partial * args.batch + here.batch;
  if (job.direct) {
    P* const to = static_cast<P*>(args.output) + (batch * args.m + here.i) * args.n + here.j;
#pragma unroll
    for (int r = 0; r < kVectors / Place::kInRow; r++) {
      const int row = place.row(Place::vector(r, 0));
      if (!own_row(row)) continue;
#pragma unroll
      for (int c = 0; c < Place::kInRow; c++) {
        const int x = Place::vector(r, c), column = place.column(x);
        Vector16<P> vector = folded<Shape>(sums, totals, folds, x);
        if constexpr (std::is_floating_point_v<P>) {
#pragma unroll
          for (int v = 0; v < kV; v++) vector.element[v] *= P(args.alpha);  // by 1 changes nothing
        }
        if (own_column(column)) *reinterpret_cast<Vector16<P>*>(to + row * args.n + column) = vector;
      }
    }
    return;
  }
#pragma unroll 1
  for (int x = 0; x < kVectors; x++) {
    const int row = place.row(x);
    if (!own_row(row)) continue;
    const Vector16<P> vector = totals[x * Shape::kThreads];
#pragma unroll
    for (int v = 0; v < kV; v++) {
      const int column = place.column(x) + v;
      if (!own_column(column)) continue;
      if constexpr (!std::is_same_v<Out, P>) {
        if (job.splits_k) {
          store_product<P>(args, batch, here.i + row, here.j + column, vector.element[v]);
          continue;
        }
      }
      store_product<Out>(args, batch, here.i + row, here.j + column, vector.element[v]);
    }
  }
}

}  // namespace torch_reductions::cuda::matmul
