// A block computes a tile of the result: panels of both operands come into shared memory stage by stage,
// asynchronously, and a thread multiplies TM lines of a by TN lines of b out of registers.
//
// The totals of the chunks before the open one wait in shared memory: registers hold one set of sums alone, so that two
// large blocks share a multiprocessor. A tile that reaches beyond the result is moved inside and computes some elements
// that another block stores; where the whole result is smaller, lines and depth beyond the edge are read at the edge,
// and their results are not used.
//
// In parts, the totals of the open part wait there; those of earlier parts wait in memory, each thread's own, for the
// L2 to hold: blocks go from tile to tile.
#pragma once
#include "epilogue.cuh"

namespace torch_reductions::cuda::matmul {

template <class T, class Shape, Layout A, Layout B>
struct TileSizes {
  using P = ProductOf<T>;
  static constexpr int kM = Shape::kM, kN = Shape::kN, kThreads = Shape::kThreads, kVector = 16 / int(sizeof(P));
  static constexpr bool kPadA = is_k_major(A) || A == Layout::any, kPadB = is_k_major(B) || B == Layout::any;
  static constexpr bool kHalved = kPadA && kPadB && sizeof(P) == 4 && kM == kN;
  static constexpr int kDepth = tile_depth(sizeof(P), kHalved), kStages = tile_stages(sizeof(P), kThreads, kHalved);
  // From one k to the next: padded where neighbouring threads write neighbours in k.
  static constexpr int kRowA = kM + kPadA * kVector, kRowB = kN + kPadB * kVector;
  static constexpr int kPanelA = kDepth * kRowA, kStage = kPanelA + kDepth * kRowB;
  static constexpr size_t kStageBytes = sizeof(P) * kStages * kStage, kTotalBytes = sizeof(P) * kM * kN;
};

// What a thread copies of the panel of one operand: its own pieces of each stage. The cursor goes from piece to piece,
// because registers are few: it is opaque, otherwise each piece would have an address of its own.
template <class T, int Lines, int Depth, int Threads, int Row, Layout kLayout>
struct Panel {
  using P = ProductOf<T>;
  static constexpr bool kKMajor = is_k_major(kLayout) || kLayout == Layout::any;
  static constexpr int kVector = vector_of<T>(kLayout);
  using Own = Pieces<Lines, Depth, Threads, kKMajor, kVector, 8>;
  static constexpr int kCount = Own::kCount;

  const Operand<T>& operand;
  const T* cursor;
  int offset;  // of the first piece in a panel

  __device__ __forceinline__ Panel(const Operand<T>& from, int64_t batch, int64_t first_line, int64_t first_k)
      : operand(from),
        cursor(from.at(batch, 0, 0) + (first_line + line()) * line_step() + (first_k + depth()) * depth_step()),
        offset(depth() * Row + line()) {}

  // Of the first piece in a panel: computed again where they are needed.
  static __device__ __forceinline__ int line() { return Own::line_of(opaque(int(threadIdx.x))); }
  static __device__ __forceinline__ int depth() { return Own::depth_of(opaque(int(threadIdx.x))); }
  __device__ __forceinline__ int64_t line_step() const { return kKMajor ? operand.mn_stride : 1; }
  __device__ __forceinline__ int64_t depth_step() const {
    return kLayout == Layout::any || !kKMajor ? operand.k_stride : 1;
  }
  static HOST_DEVICE constexpr int offset_of(int piece) { return Own::depth_step(piece) * Row + Own::line_step(piece); }

  // The next piece of a stage that is wholly there. The last one leaves the cursor at the next stage.
  __device__ __forceinline__ void copy(int piece, bool wanted, P* stage) {
    copy_piece<kVector>(wanted, stage + offset + offset_of(piece), cursor + (kKMajor ? Own::depth_step(piece) : 0));
    const int64_t jump = kKMajor ? Own::kAcross * operand.mn_stride : Own::kThreadsOfK * operand.k_stride;
    if (!kKMajor || piece % Own::kDepthSteps == Own::kDepthSteps - 1) cursor = opaque(cursor + jump);
    if (kKMajor && piece == kCount - 1) cursor = opaque(cursor + (Depth - Own::kLineSteps * jump));
  }
  // A whole stage, of which `lines` and `left` elements of k are there.
  __device__ __forceinline__ void copy_edge(P* stage, int lines, int left) const {
    const int own_line = line(), own_depth = depth();
#pragma unroll 1
    for (int piece = 0; piece < kCount; piece++) {
      const int l = min(own_line + Own::line_step(piece), lines - kVector) - own_line;
      const int d = min(own_depth + Own::depth_step(piece), left - 1) - own_depth;
      copy_piece<kVector>(stage + offset + offset_of(piece), cursor + l * line_step() + d * depth_step());
    }
  }
  __device__ __forceinline__ void skip() { cursor += Depth * depth_step(); }
};

// Where a thread's vectors of TM x TN sums stand in the tile: eight lanes lie along the lines of a and four along those
// of b, so that 16-byte loads of neighbours fill all banks.
template <class Shape, int kV>
struct ThreadTile {
  static constexpr int TM = Shape::kM / (8 * Shape::kWarpsM), TN = Shape::kN / (4 * Shape::kWarpsN), kInRow = TN / kV;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int i = warp % Shape::kWarpsM * (8 * TM) + (lane >> 1 & 7) * kV;
  const int j = warp / Shape::kWarpsM * (4 * TN) + (lane & 1 | lane >> 4 << 1) * kV;

  static __device__ __forceinline__ int vector(int r, int c) { return r * kInRow + c; }
  __device__ __forceinline__ int row(int x) const { return i + x / kInRow / kV * 8 * kV + x / kInRow % kV; }
  __device__ __forceinline__ int column(int x) const { return j + x % kInRow * 4 * kV; }
};

template <class T, class Out, class Shape, Layout A, Layout B, bool InParts>
__device__ __forceinline__ void multiply_tile(const TileJob<T>& job, unsigned tile) {
  using P = ProductOf<T>;
  using Sizes = TileSizes<T, Shape, A, B>;
  constexpr int kV = Sizes::kVector, BK = Sizes::kDepth, kStages = Sizes::kStages, kThreads = Sizes::kThreads;
  using Vector = AlignedVector<P, kV>;
  using Place = ThreadTile<Shape, kV>;
  constexpr int TM = Place::TM, TN = Place::TN;
  P* const stages = reinterpret_cast<P*>(memory);
  Vector* const totals = reinterpret_cast<Vector*>(stages + kStages * Sizes::kStage) + threadIdx.x;
  const MatmulArgs& args = job.args;

  const TilePlace<T, Shape> here(job, tile);
  const int lines_a = int(min(args.m, int64_t(Shape::kM))), lines_b = int(min(args.n, int64_t(Shape::kN)));
  const bool inside = lines_a == Shape::kM && lines_b == Shape::kN && A != Layout::any;
  const int depth = int(here.depth), whole = depth / BK, tail = depth % BK;  // stages, and what a last one holds

  Panel<T, Shape::kM, BK, kThreads, Sizes::kRowA, A> panel_a(job.a, here.batch, here.i, here.begin);
  Panel<T, Shape::kN, BK, kThreads, Sizes::kRowB, B> panel_b(job.b, here.batch, here.j, here.begin);
  constexpr int kPiecesA = decltype(panel_a)::kCount, kPieces = kPiecesA + decltype(panel_b)::kCount;
  const auto copy_piece_of = [&](int piece, bool wanted, P* stage) {
    if (piece < kPiecesA) panel_a.copy(piece, wanted, stage);
    else panel_b.copy(piece - kPiecesA, wanted, stage + Sizes::kPanelA);
  };
  const auto copy_edge = [&](int step, P* stage) {
    panel_a.copy_edge(stage, lines_a, depth - step * BK);
    panel_b.copy_edge(stage + Sizes::kPanelA, lines_b, depth - step * BK);
  };
  const auto skip = [&] {
    panel_a.skip();
    panel_b.skip();
  };

  const Place place;
  P sums[TM][TN];
  Vector a[2][TM / kV], b[2][TN / kV];
  const auto clear = [&] {
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j++) sums[i][j] = 0;
  };
  const auto load = [&](int to, const P* stage, int k) {
    const P* const from_a = stage + k * Sizes::kRowA + place.i;
    const P* const from_b = stage + Sizes::kPanelA + k * Sizes::kRowB + place.j;
#pragma unroll
    for (int i = 0; i < TM / kV; i++) a[to][i] = *reinterpret_cast<const Vector*>(from_a + i * 8 * kV);
#pragma unroll
    for (int j = 0; j < TN / kV; j++) b[to][j] = *reinterpret_cast<const Vector*>(from_b + j * 4 * kV);
  };
  // Down one column and up the next: neighbours share an operand, which spares the registers' banks.
  const auto multiply = [&](int from) {
#pragma unroll
    for (int j = 0; j < TN; j++)
#pragma unroll
      for (int step = 0; step < TM; step++) {
        const int i = j % 2 ? TM - 1 - step : step;
        sums[i][j] = multiply_add(a[from][i / kV].element[i % kV], b[from][j / kV].element[j % kV], sums[i][j]);
      }
  };

#pragma unroll 1
  for (int stage = 0; stage < kStages - 1; stage++) {
    P* const to = stages + stage * Sizes::kStage;
    if (inside && stage < whole) {
#pragma unroll
      for (int piece = 0; piece < kPieces; piece++) copy_piece_of(piece, true, to);
    } else {
      copy_edge(stage, to);
      skip();
    }
    cp_async_commit();
  }
  cp_async_wait<kStages - 2>();
  __syncthreads();
  clear();
  load(0, stages, 0);

  int reading = 0, writing = kStages - 1, step = 0;  // stages of memory, and of k
  int done = 0;                                      // chunks
  int part_end = InParts ? job.part / BK : 0;        // of the open part
#pragma unroll 1
  while (true) {
    constexpr int kSteps = kProductChunk / BK;
    const int chunk_end = InParts ? min(step + kSteps, part_end) : step + kSteps;
    const bool ends = chunk_end * BK >= depth;
    const int end = min(whole, chunk_end);
#pragma unroll 1
    for (; step < end; step++) {
      const int ahead = step + kStages - 1;
      const bool fast = inside && ahead < whole;
      P* const to = stages + writing * Sizes::kStage;
      // Every stage of memory is written once: what stands behind the last one of k is loaded, though not used.
      if (!fast && (ahead * BK < depth || ahead == kStages - 1)) copy_edge(ahead, to);
      const P* from = stages + reading * Sizes::kStage;
      reading = reading == kStages - 1 ? 0 : reading + 1;
      writing = writing == kStages - 1 ? 0 : writing + 1;
#pragma unroll
      for (int k = 0; k < BK; k++) {
        if (k == BK - 1) {
          if constexpr (A == Layout::any) skip();
          cp_async_commit();
          cp_async_wait<kStages - 2>();
          __syncthreads();
          from = stages + reading * Sizes::kStage;
        }
        load((k + 1) % 2, from, (k + 1) % BK);  // behind the last stage whatever stands there, and it is not used
        if constexpr (A != Layout::any) {
          // In bursts: the compiler sets three empty instructions before each copy that follows a load.
          constexpr int kBursts = (kPieces + kBurst - 1) / kBurst, kEvery = (BK - 1) / kBursts;
          if (k % kEvery == 0 && k / kEvery < kBursts) {
#pragma unroll
            for (int piece = k / kEvery * kPieces / kBursts; piece < (k / kEvery + 1) * kPieces / kBursts; piece++)
              copy_piece_of(piece, fast, to);
          }
        }
        multiply(k % 2);
      }
    }
    if (ends) {
#pragma unroll 1
      for (int k = 0; k < tail; k++) {
        load(0, stages + reading * Sizes::kStage, k);
        multiply(0);
      }
    }
    if constexpr (InParts) {
      const int part_stages = job.part / BK, part_begin = part_end - part_stages;
      const bool part_ends = ends || chunk_end == part_end;
      join_part<T, Shape, TM * TN>(job, flat(sums), totals, unsigned(part_begin / part_stages),
                                   chunk_end - part_begin <= kSteps, part_ends, ends);
      if (!ends) {
        if (part_ends) part_end += part_stages;
        clear();
        continue;
      }
    }
    const bool stores = ends || job.splits_k, folds = done > 0 && !job.splits_k;
    if (!stores || !job.direct) fold_totals<Shape, TM * TN>(flat(sums), totals, folds);
    if (stores) store_tile<Out, Shape>(job, tile, done, place, flat(sums), totals, folds);
    if (ends) break;
    done++;
    clear();
  }
  cp_async_wait<0>();
}

template <class T, class Out, class Shape, Layout A, Layout B, bool InParts>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    multiply_tiles(const __grid_constant__ TileJob<T> job) {
  if constexpr (!InParts) multiply_tile<T, Out, Shape, A, B, false>(job, blockIdx.x);
  else for_tiles(job.schedule, [&](unsigned tile) { multiply_tile<T, Out, Shape, A, B, true>(job, tile); });
}

}  // namespace torch_reductions::cuda::matmul
