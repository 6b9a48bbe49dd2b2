// A block computes a tile of a product of float64 on tensor cores: on 9.0 one instruction of a warp (DMMA) is 16 x 8
// chains of fused multiply-adds, k ascending, so that the bits are those of multiply_tiles, at twice its rate.
//
// Panels of both operands come into shared memory stage by stage, asynchronously, and lie there as they lie in memory,
// in blocks of four elements whose places an exclusive or permutes: neither copies nor fragments then meet a bank
// twice.
//
// The totals of earlier chunks wait in shared memory, those of earlier parts in the L2, as in multiply_tiles.
// Behind the end of k stand -0 in a and +0 in b: their product is -0, which changes no sum.
//
// Local:   multiply_tensor_tiles (40 bytes): behind a part, whose sums and what they are added to fill the registers;
//          the loop over k has none.
#pragma once
#include "../../primitives/mma.cuh"
#include "tile.cuh"

namespace torch_reductions::cuda::matmul {

// What a block of a tile of 128 x 128 holds in shared memory: stages of both panels, and the totals.
struct TensorStages {
  static constexpr int kLines = 128, kDepth = 16, kCount = 3;
  static constexpr int kPanel = kLines * kDepth, kStage = 2 * kPanel;
  static constexpr size_t kBytes = sizeof(double) * kCount * kStage, kTotalBytes = sizeof(double) * kLines * kLines;
};

// One operand's panel of a stage. KMajor: elements of a line are contiguous in memory; otherwise it is MN-major, and
// lines are. Pairs: each copy moves two neighbouring elements.
template <bool KMajor, bool Pairs>
struct TensorPanel {
  static constexpr int kLines = TensorStages::kLines, kDepth = TensorStages::kDepth, kThreads = DmmaTile::kThreads;
  // Threads along the contiguous dimension, and across it, where each copies one element.
  static constexpr int kThreadsContiguous = KMajor ? kDepth : kLines, kThreadsAcross = kThreads / kThreadsContiguous;
  static constexpr int kHalfQuarter = TensorStages::kPanel / 8;  // what they copy at once, one element each
  static constexpr int kWide = Pairs ? 2 : 1;

  const Operand<double>& operand;
  const double* cursor;  // of what this thread copies next
  const int own;         // where that lies in a panel

  static __device__ __forceinline__ int offset_of(int line, int k) {
    return KMajor ? line * kDepth + (k ^ line % 4 * 4) : k * kLines + (line ^ k % 4 * 4);
  }
  // Where a thread's first piece lies, along the neighbours and across them.
  static __device__ __forceinline__ int along() {
    return opaque(int(threadIdx.x)) % (kThreadsContiguous / kWide) * kWide;
  }
  static __device__ __forceinline__ int across() { return opaque(int(threadIdx.x)) / (kThreadsContiguous / kWide); }
  __device__ __forceinline__ int64_t stride() const { return KMajor ? operand.mn_stride : operand.k_stride; }

  __device__ __forceinline__ TensorPanel(const Operand<double>& from, const double* corner)
      : operand(from),
        cursor(corner + across() * stride() + along()),
        own(KMajor ? offset_of(across(), along()) : offset_of(along(), across())) {}

  // A quarter of a stage that is wholly there. The last one leaves the cursor at the next stage.
  __device__ __forceinline__ void copy(double* panel, int quarter) {
    double* const to = panel + own + 2 * kHalfQuarter * quarter;
    if constexpr (Pairs) {
      cp_async<16>(to, cursor);
    } else {
      cp_async<8>(to, cursor);
      cp_async<8>(panel + (KMajor ? own : own ^ 8) + kHalfQuarter * (2 * quarter + 1),
                  cursor + kThreadsAcross * stride());
    }
    cursor = opaque(cursor + 2 * kThreadsAcross * stride());
    if (KMajor && quarter == 3) cursor = opaque(cursor + (kDepth - kLines * stride()));
  }

  // A stage of which `lines` and `left` elements of k are there. Lines beyond the edge are read at the edge, and their
  // results are not used; after the end of k stands `padding`.
  __device__ __forceinline__ void copy_edge(double* panel, int lines, int left, double padding) {
    const double* const corner = cursor - across() * stride() - along();
#pragma unroll 1
    for (int piece = int(threadIdx.x); piece < TensorStages::kPanel; piece += kThreads) {
      const int line = KMajor ? piece / kDepth : piece % kLines, k = KMajor ? piece % kDepth : piece / kLines;
      double* const to = panel + offset_of(line, k);
      if (k < left) cp_async<8>(to, corner + min(line, lines - 1) * operand.mn_stride + k * operand.k_stride);
      else *to = padding;
    }
    cursor += kDepth * operand.k_stride;
  }

  // A lane's element of a fragment: of line first + 8 eight + lane / 4, where first is a multiple of 16, and of k
  // 4 block + lane % 4.
  static __device__ __forceinline__ double element(const double* panel, int first, int eight, int block) {
    const int row = int(threadIdx.x) % 32 / 4, quarter = int(threadIdx.x) % 4;
    if constexpr (KMajor) return panel[(offset_of(row, quarter) ^ 4 * block) + (first + 8 * eight) * kDepth];
    else return panel[(offset_of(row, quarter) ^ 8 * eight) + first + 4 * block * kLines];
  }
};

// What a block loads of both operands, stage by stage.
template <bool KMajorA, bool KMajorB, bool Pairs>
struct TensorLoads {
  static constexpr int kDepth = TensorStages::kDepth, kLines = TensorStages::kLines, kPanel = TensorStages::kPanel;

  const MatmulArgs& args;
  TensorPanel<KMajorA, Pairs> a;
  TensorPanel<KMajorB, Pairs> b;
  int left;  // of k, not loaded yet

  __device__ __forceinline__ bool is_whole() const { return args.m >= kLines && args.n >= kLines && left >= kDepth; }
  __device__ __forceinline__ void issue(double* stage, int quarter) {
    a.copy(stage, quarter);
    b.copy(stage + kPanel, quarter);
  }
  __device__ __forceinline__ void issue_edge(double* stage) {
    if (left <= 0) return;
    a.copy_edge(stage, int(min(args.m, int64_t(kLines))), left, -0.);
    b.copy_edge(stage + kPanel, int(min(args.n, int64_t(kLines))), left, +0.);
  }
  __device__ __forceinline__ void close_stage() {
    left -= kDepth;
    cp_async_commit();
  }
};

// A warp's part of the tile: its sums, and the fragments that are multiplied next. A stage has two halves of k.
template <bool KMajorA, bool KMajorB>
struct WarpTile {
  using Shape = DmmaTile;
  static constexpr int kHeight = Shape::kM / Shape::kWarpsM, kWidth = Shape::kN / Shape::kWarpsN;
  static constexpr int kDown = kHeight / 16, kAcross = kWidth / 8, kInRow = kAcross;

  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int first_row = warp % Shape::kWarpsM * kHeight, first_column = warp / Shape::kWarpsM * kWidth;
  double sums[kDown][kAcross][4], a[kDown][4], b[2][kAcross][2];

  __device__ __forceinline__ void load_a(int i, const double* stage, int half) {
#pragma unroll
    for (int e = 0; e < 4; e++)
      a[i][e] = TensorPanel<KMajorA, true>::element(stage, first_row + 16 * i, e % 2, 2 * half + e / 2);
  }
  __device__ __forceinline__ void load_b(const double* stage, int half) {
#pragma unroll
    for (int e = 0; e < kAcross * 2; e++)
      b[half][e / 2][e % 2] = TensorPanel<KMajorB, true>::element(
          stage + TensorStages::kPanel, first_column + e / 4 * 16, e / 2 % 2, 2 * half + e % 2);
  }
  __device__ __forceinline__ void load_first(const double* stage) {
    load_b(stage, 0);
#pragma unroll
    for (int i = 0; i < kDown; i++) load_a(i, stage, 0);
  }
  // Row i of the fragments.
  __device__ __forceinline__ void multiply(int i, int half) {
#pragma unroll
    for (int j = 0; j < kAcross; j++) mma_sync(sums[i][j], a[i], b[half][j]);
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int x = 0; x < kDown * kAcross * 4; x++) flat(sums)[x] = 0;
  }
  // Of pair x of the sums: 16 x 8 of them are 2 pairs a lane.
  static __device__ __forceinline__ int vector(int r, int c) { return r / 2 * (2 * kAcross) + c * 2 + r % 2; }
  __device__ __forceinline__ int row(int x) const { return first_row + x / (2 * kAcross) * 16 + x % 2 * 8 + lane / 4; }
  __device__ __forceinline__ int column(int x) const { return first_column + x / 2 % kAcross * 8 + lane % 4 * 2; }
};

template <class T, bool KMajorA, bool KMajorB, bool InParts, bool Pairs>
__device__ __forceinline__ void multiply_tensor_tile(const TileJob<T>& job, unsigned tile) {
  using Shape = DmmaTile;
  constexpr int kStages = TensorStages::kCount, kStage = TensorStages::kStage, kDepth = TensorStages::kDepth;
  constexpr int kChunkStages = kProductChunk / kDepth;
  double* const ring = reinterpret_cast<double*>(memory);
  Vector16<double>* const totals = reinterpret_cast<Vector16<double>*>(ring + kStages * kStage) + threadIdx.x;

  const TilePlace<T, Shape> here(job, tile);
  const int stages = (int(here.depth) + kDepth - 1) / kDepth;
  TensorLoads<KMajorA, KMajorB, Pairs> loads{job.args,
                                             {job.a, job.a.at(here.batch, here.i, here.begin)},
                                             {job.b, job.b.at(here.batch, here.j, here.begin)},
                                             int(here.depth)};
#pragma unroll 1
  for (int slot = 0; slot < kStages - 1; slot++) {
    if (loads.is_whole()) {
#pragma unroll
      for (int quarter = 0; quarter < 4; quarter++) loads.issue(ring + slot * kStage, quarter);
    } else {
      loads.issue_edge(ring + slot * kStage);
    }
    loads.close_stage();
  }
  const int issuing_whole = loads.is_whole() ? loads.left / kDepth : 0;  // stages during which whole ones are loaded
  WarpTile<KMajorA, KMajorB> warp;
  if (!InParts && stages > kChunkStages && !job.splits_k) {
#pragma unroll 1
    for (int x = 0; x < int(sizeof(warp.sums) / 16); x++) totals[x * Shape::kThreads] = {-0., -0.};  // -0 + x is x
  }
  cp_async_wait<kStages - 2>();
  __syncthreads();
  int reading = 0, writing = kStages - 1, stage = 0;
  warp.load_first(ring);

  // Once multiplied, a row of fragments makes room for that of the next half, and part of a later stage is loaded.
  const auto multiply_stage = [&](auto issues_whole) {
    constexpr bool kWhole = decltype(issues_whole)::value;
    const bool whole = kWhole || loads.is_whole();
    if (!whole) loads.issue_edge(ring + writing * kStage);
#pragma unroll
    for (int i = 0; i < warp.kDown; i++) {
      if (i == warp.kDown - 1) warp.load_b(ring + reading * kStage, 1);
      warp.multiply(i, 0);
      warp.load_a(i, ring + reading * kStage, 1);
      if (whole) loads.issue(ring + writing * kStage, i);
    }
    loads.close_stage();
    writing = writing == kStages - 1 ? 0 : writing + 1;
    cp_async_wait<kStages - 2>();
    __syncthreads();  // the next stage is there for all, and all have read this one
    // Behind the last stage it is read once more: what is loaded then is not used.
    if (++stage < stages || kWhole) reading = reading == kStages - 1 ? 0 : reading + 1;
#pragma unroll
    for (int i = 0; i < warp.kDown; i++) {
      if (i == warp.kDown - 1) warp.load_b(ring + reading * kStage, 0);
      warp.multiply(i, 1);
      warp.load_a(i, ring + reading * kStage, 0);
    }
  };
#pragma unroll 1
  for (int chunk = 0;; chunk++) {
    int end = min(stages, stage + kChunkStages);
    if constexpr (InParts) end = min(end, (stage / (job.part / kDepth) + 1) * (job.part / kDepth));
    const bool folds = !InParts && chunk > 0 && !job.splits_k;
    if (folds) fold_totals<Shape, 4>(flat(warp.sums), totals, true);  // while other warps multiply
    warp.clear();
    // Two at a time and no branch inside: before one the compiler waits for the end of all products.
#pragma unroll 1
    while (stage + 2 <= min(end, issuing_whole)) {
      multiply_stage(std::true_type());
      multiply_stage(std::true_type());
    }
#pragma unroll 1
    while (stage < end) multiply_stage(std::false_type());
    const bool ends = stage == stages;
    if constexpr (InParts) {
      const unsigned part_stages = unsigned(job.part) / kDepth, part = unsigned(stage - 1) / part_stages;
      const unsigned of_part = unsigned(stage) - part * part_stages;  // stages
      join_part<T, Shape, 16>(job, flat(warp.sums), totals, part, of_part <= kChunkStages,
                              ends || of_part == part_stages, ends);
      if (!ends) {
        warp.load_first(ring + reading * kStage);
        continue;
      }
    }
    if (!ends && !job.splits_k) continue;
    if (!job.direct) fold_totals<Shape, 1 << 30>(flat(warp.sums), totals, folds);
    store_tile<double, Shape>(job, tile, chunk, warp, flat(warp.sums), totals, folds);
    if (ends) break;
  }
  cp_async_wait<0>();
}

template <class T, bool KMajorA, bool KMajorB, bool InParts, bool Pairs>
__global__ void __launch_bounds__(DmmaTile::kThreads, DmmaTile::kBlocks)
    multiply_tensor_tiles(const __grid_constant__ TileJob<T> job) {
#if defined(CUDA_ON_CPU) || __CUDA_ARCH__ == 900
  if constexpr (!InParts) multiply_tensor_tile<T, KMajorA, KMajorB, false, Pairs>(job, blockIdx.x);
  else
    for_tiles(job.schedule, [&](unsigned tile) { multiply_tensor_tile<T, KMajorA, KMajorB, true, Pairs>(job, tile); });
#endif
}

// Is the kernel more than its empty body for other architectures? It is not where their PTX was translated.
template <class T>
bool tensor_tiles_compiled() {
  static const bool found = attributes_of(multiply_tensor_tiles<T, true, true, false, true>).ptxVersion == 90;
  return found;
}

}  // namespace torch_reductions::cuda::matmul
