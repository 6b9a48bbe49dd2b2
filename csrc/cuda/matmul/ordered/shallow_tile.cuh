// A tile of a product with a short k, all of which is in shared memory at once: one wait, little code, no registers for
// what comes next, so that more blocks share a multiprocessor and some load or store while others multiply. Neighbouring
// lanes have neighbouring columns, which go to the result as they are.
#pragma once
#include "operand.cuh"
#include "tuning.h"

namespace torch_reductions::cuda::matmul {

template <class T>
struct ShallowTileJob {
  MatmulArgs args;
  Operand<T> a, b;
  bool vectors_a, vectors_b;  // are neighbouring lines copied in vectors?
  unsigned tiles_m, tiles_n;
};

template <class T, class Shape>
struct ShallowTileSizes {
  static constexpr int kVector = 16 / int(sizeof(T)), kUnroll = 4;
  // From one k to the next: padded, because neighbouring threads may write neighbours in k.
  static constexpr int kRowA = Shape::kM + kVector, kRowB = Shape::kN + kVector;
  static HOST_DEVICE constexpr int depth(int k) { return (k + kUnroll - 1) / kUnroll * kUnroll; }
  static HOST_DEVICE constexpr size_t bytes(int k) { return sizeof(T) * depth(k) * (kRowA + kRowB); }
};

// `Lines` lines of an operand from `first` on; for those beyond the last one stand earlier ones: if all were the same, each
// copy would take as long as all together. Behind k, up to `depth`, stands `behind`.
template <int Lines, int Threads, class T>
__device__ __forceinline__ void copy_lines(T* panel, const Operand<T>& from, bool vectors, int64_t batch, int64_t first,
                                           int k, int depth, T behind) {
  constexpr int kV = 16 / int(sizeof(T)), kRow = Lines + kV, kAlong = 8;
  const int thread = int(threadIdx.x), lines = int(min(from.lines - first, int64_t(Lines)));
  const T* const start = from.at(batch, first, 0);
  if (vectors) {
    constexpr int kAcross = Lines / kV;
    const int l = thread % kAcross * kV;
    const T* const line = start + l % lines;
#pragma unroll 4
    for (int at = thread / kAcross; at < k; at += Threads / kAcross)
      cp_async<16>(panel + at * kRow + l, line + at * from.k_stride);
  } else if (from.k_stride == 1) {
#pragma unroll 1
    for (int l = thread / kAlong; l < Lines; l += Threads / kAlong) {
      const T* const line = start + (l < lines ? l : l % lines) * from.mn_stride;
#pragma unroll 4
      for (int at = thread % kAlong; at < k; at += kAlong) cp_async<sizeof(T)>(panel + at * kRow + l, line + at);
    }
  } else {
    const int l = thread % Lines;
    const T* const line = start + l % lines * from.mn_stride;
#pragma unroll 4
    for (int at = thread / Lines; at < k; at += Threads / Lines)
      cp_async<sizeof(T)>(panel + at * kRow + l, line + at * from.k_stride);
  }
  for (int i = k * kRow + thread; i < depth * kRow; i += Threads) panel[i] = behind;
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    multiply_shallow_tile(const __grid_constant__ ShallowTileJob<T> job) {
  using Sizes = ShallowTileSizes<T, Shape>;
  constexpr int kV = Sizes::kVector, kRowA = Sizes::kRowA, kRowB = Sizes::kRowB;
  constexpr int kLanesN = Shape::kLanesN, kStepM = 32 / kLanesN * kV;  // a lane's vectors of lines of a
  constexpr int TM = Shape::kM / (Shape::kWarpsM * (32 / kLanesN)), TN = Shape::kN / (Shape::kWarpsN * kLanesN);
  static_assert(TM % kV == 0 && Shape::kThreads >= Shape::kN && Shape::kThreads >= Shape::kM);
  using Vector = AlignedVector<T, kV>;
  const MatmulArgs& args = job.args;
  const unsigned tile = blockIdx.x / job.tiles_n;
  const int64_t first_i = int64_t(tile % job.tiles_m) * Shape::kM, batch = tile / job.tiles_m;
  const int64_t first_j = int64_t(blockIdx.x % job.tiles_n) * Shape::kN;
  const int k = int(args.k), depth = Sizes::depth(k);
  T* const panel_a = reinterpret_cast<T*>(memory);
  T* const panel_b = panel_a + depth * kRowA;
  // Behind k -0 times +0 is added, which changes nothing.
  copy_lines<Shape::kM, Shape::kThreads>(panel_a, job.a, job.vectors_a, batch, first_i, k, depth, T(-0.));
  copy_lines<Shape::kN, Shape::kThreads>(panel_b, job.b, job.vectors_b, batch, first_j, k, depth, T(0));
  cp_async_commit();

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int own_i = warp % Shape::kWarpsM * (Shape::kM / Shape::kWarpsM) + lane / kLanesN * kV;
  const int own_j = warp / Shape::kWarpsM * (Shape::kN / Shape::kWarpsN) + lane % kLanesN;
  T sums[TM][TN];
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) sums[i][j] = 0;
  cp_async_wait<0>();
  __syncthreads();
  const T *from_a = panel_a + own_i, *from_b = panel_b + own_j;
#pragma unroll 1
  for (int step = 0; step < depth; step += Sizes::kUnroll) {
#pragma unroll
    for (int at = 0; at < Sizes::kUnroll; at++, from_a += kRowA, from_b += kRowB) {
      Vector a[TM / kV];
      T b[TN];
#pragma unroll
      for (int i = 0; i < TM / kV; i++) a[i] = *reinterpret_cast<const Vector*>(from_a + i * kStepM);
#pragma unroll
      for (int j = 0; j < TN; j++) b[j] = from_b[j * kLanesN];
      // Down one column and up the next: neighbours share an operand, which spares the registers' banks.
#pragma unroll
      for (int j = 0; j < TN; j++)
#pragma unroll
        for (int s = 0; s < TM; s++) {
          const int i = j % 2 ? TM - 1 - s : s;
          sums[i][j] = multiply_add(a[i / kV].element[i % kV], b[j], sums[i][j]);
        }
    }
  }

  const int64_t rows = args.m - first_i - own_i, columns = args.n - first_j - own_j;
  const int64_t i0 = first_i + own_i, j0 = first_j + own_j;
  T* const to = static_cast<T*>(args.output) + (batch * args.m + i0) * args.n + j0;
  const Matrix& added = args.added;
  const T* const add = added.data == nullptr ? nullptr : element_of<T>(added, batch, i0, j0);
  const T alpha = T(args.alpha), beta = T(args.beta);
  T addends[TN];
  const auto load_addends = [&](int row) {  // all of a row before the first store, over which no load moves
#pragma unroll
    for (int j = 0; j < TN; j++)
      if (j * kLanesN < columns) addends[j] = beta * add[row * added.row_stride + j * kLanesN * added.column_stride];
  };
  const bool repeats = added.row_stride == 0;  // a bias: every row adds the same
  if (add != nullptr && repeats && rows > 0) load_addends(0);
#pragma unroll
  for (int i = 0; i < TM; i++) {
    const int row = i / kV * kStepM + i % kV;
    if (row >= rows) continue;
    if (add != nullptr && !repeats) load_addends(row);
#pragma unroll
    for (int j = 0; j < TN; j++) {
      T value = alpha * sums[i][j];  // by 1 changes nothing
      if (add != nullptr) value = value + addends[j];
      if (j * kLanesN < columns) to[row * args.n + j * kLanesN] = value;
    }
  }
}

}  // namespace torch_reductions::cuda::matmul
