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
// Local:   multiply_tensor_tiles (52 bytes): behind a part, whose sums and what they are added to fill the registers,
//          and in the loop over single stages before its end; the loop over pairs of whole stages has none.
#pragma once
#include "../../primitives/mma.cuh"
#include "tile.cuh"

namespace torch_reductions::cuda::matmul {

// What a block holds in shared memory: stages of both panels, and the totals.
template <class Shape>
struct TensorStages {
  static_assert(Shape::kM == Shape::kN && Shape::kThreads == 2 * Shape::kM);
  static constexpr int kLines = Shape::kM, kDepth = 16, kCount = kLines == 128 ? 3 : kLines == 64 ? 4 : 6;
  static constexpr int kPanel = kLines * kDepth, kStage = 2 * kPanel;
  static constexpr size_t kBytes = sizeof(double) * kCount * kStage, kTotalBytes = sizeof(double) * kLines * kLines;
};

// One operand's panel of a stage. KMajor: elements of a line are contiguous in memory; otherwise it is MN-major, and
// lines are. Pairs: each copy moves two neighbouring elements.
template <class Shape, bool KMajor, bool Pairs>
struct TensorPanel {
  using Stages = TensorStages<Shape>;
  static constexpr int kLines = Stages::kLines, kDepth = Stages::kDepth, kThreads = Shape::kThreads;
  // Threads along the contiguous dimension, and across it, where each copies one element.
  static constexpr int kThreadsContiguous = KMajor ? kDepth : kLines, kThreadsAcross = kThreads / kThreadsContiguous;
  static constexpr int kHalfQuarter = Stages::kPanel / 8;  // what they copy at once, one element each
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

  // So that fewer lines than a panel's can be copied. Large tiles have no register for that.
  static constexpr bool kPredicated = kLines < 128;
  // A quarter of a stage whose depth is wholly there, as far as `lines` lines are. The last one leaves the cursor at the
  // next stage.
  __device__ __forceinline__ void copy(double* panel, int quarter, int lines) {
    const int below = lines - (KMajor ? across() : along());
    const auto copy_line = [&]<int Bytes>(std::integral_constant<int, Bytes>, int line, double* to,
                                          const double* from) {
      if constexpr (kPredicated) cp_async_if<Bytes>((KMajor ? line : 0) < below, to, from);
      else cp_async<Bytes>(to, from);
    };
    const int line = 2 * kThreadsAcross * quarter;
    double* const to = panel + own + 2 * kHalfQuarter * quarter;
    if constexpr (Pairs) {
      copy_line(std::integral_constant<int, 16>(), line, to, cursor);
    } else {
      constexpr std::integral_constant<int, 8> kBytes;
      copy_line(kBytes, line, to, cursor);
      copy_line(kBytes, line + kThreadsAcross, panel + (KMajor ? own : own ^ 8) + kHalfQuarter * (2 * quarter + 1),
                cursor + kThreadsAcross * stride());
    }
    cursor = opaque(cursor + 2 * kThreadsAcross * stride());
    if (KMajor && quarter == 3) cursor = opaque(cursor + (kDepth - kLines * stride()));
  }

  // A stage of which `lines` and `left` elements of k are there. Lines beyond the edge are not copied, and their results
  // are not used; after the end of k stands `padding`.
  __device__ __forceinline__ void copy_edge(double* panel, int lines, int left, double padding) {
    const double* const corner = cursor - across() * stride() - along();
#pragma unroll 1
    for (int piece = int(threadIdx.x); piece < Stages::kPanel; piece += kThreads) {
      const int line = KMajor ? piece / kDepth : piece % kLines, k = KMajor ? piece % kDepth : piece / kLines;
      double* const to = panel + offset_of(line, k);
      if (k >= left) *to = padding;
      else if (line < lines) cp_async<8>(to, corner + line * operand.mn_stride + k * operand.k_stride);
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

template <class T, class Shape, bool KMajorA, bool KMajorB, bool InParts, bool Pairs>
__device__ __forceinline__ void multiply_tensor_tile(const TileJob<T>& job, unsigned tile) {
  using Pair = AlignedVector<double, 2>;
  using Stages = TensorStages<Shape>;
  using PanelA = TensorPanel<Shape, KMajorA, Pairs>;
  using PanelB = TensorPanel<Shape, KMajorB, Pairs>;
  constexpr int kStages = Stages::kCount, kStage = Stages::kStage, kDepth = Stages::kDepth;
  constexpr int kHeight = Shape::kM / Shape::kWarpsM, kWidth = Shape::kN / Shape::kWarpsN;  // of a warp's tile
  constexpr int kDown = kHeight / 16, kAcross = kWidth / 8, kPairs = kDown * kAcross * 2;   // 16 x 8 are 2 pairs a lane
  double* const ring = reinterpret_cast<double*>(memory);
  Pair* const totals = reinterpret_cast<Pair*>(ring + kStages * kStage) + threadIdx.x;
  const MatmulArgs& args = job.args;
  const bool to_partials = job.partials != nullptr;

  const TileCoord<T, Shape> coord(job, tile);
  const int stages = (coord.depth + kDepth - 1) / kDepth;
  const int64_t first_k = coord.chunk * kProductChunk;
  PanelA panel_a(job.a, job.a.at(coord.batch, coord.i, first_k));
  PanelB panel_b(job.b, job.b.at(coord.batch, coord.j, first_k));
  int left = coord.depth;  // of k, not loaded yet
  const auto is_whole = [&] { return left >= kDepth; };
  const auto lines_of = [&](int64_t size) { return int(min(size, int64_t(Stages::kLines))); };
  const auto issue_edge = [&](int slot) {
    if (left <= 0) return;
    panel_a.copy_edge(ring + slot * kStage, lines_of(args.m), left, -0.);
    panel_b.copy_edge(ring + slot * kStage + Stages::kPanel, lines_of(args.n), left, +0.);
  };
  const auto issue_load = [&](int slot, int quarter) {
    panel_a.copy(ring + slot * kStage, quarter, lines_of(args.m));
    panel_b.copy(ring + slot * kStage + Stages::kPanel, quarter, lines_of(args.n));
  };

  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int warp_row = warp % Shape::kWarpsM * kHeight, warp_column = warp / Shape::kWarpsM * kWidth;
  double sums[kDown][kAcross][4], a[kDown][4], b[2][kAcross][2];
  const auto load_a = [&](int i, int slot, int half) {
#pragma unroll
    for (int e = 0; e < 4; e++)
      a[i][e] = PanelA::element(ring + slot * kStage, warp_row + 16 * i, e % 2, 2 * half + e / 2);
  };
  const auto load_b = [&](int slot, int half) {
#pragma unroll
    for (int e = 0; e < kAcross * 2; e++)
      b[half][e / 2][e % 2] =
          PanelB::element(ring + slot * kStage + Stages::kPanel, warp_column + e / 4 * 16, e / 2 % 2, 2 * half + e % 2);
  };
  // A pair of sums that are neighbours in a row: where it stands among the sums, and in the tile.
  const auto sum_at = [&](int pair_index, int which) -> double& {
    return sums[pair_index / (2 * kAcross)][pair_index / 2 % kAcross][pair_index % 2 * 2 + which];
  };
  const auto row_of = [&](int pair_index) {
    return warp_row + pair_index / (2 * kAcross) * 16 + pair_index % 2 * 8 + lane / 4;
  };
  const auto column_of = [&](int pair_index) { return warp_column + pair_index / 2 % kAcross * 8 + lane % 4 * 2; };
  const auto total_of = [&](int pair_index) {
    Pair total = totals[pair_index * Shape::kThreads];
#pragma unroll
    for (int v = 0; v < 2; v++) total.element[v] += sum_at(pair_index, v);
    return total;
  };
  // Row i of the warp's fragments.
  const auto multiply = [&](int i, int half) {
#pragma unroll
    for (int j = 0; j < kAcross; j++) mma_sync(sums[i][j], a[i], b[half][j]);
  };

  if (PanelA::kPredicated && (args.m < Shape::kM || args.n < Shape::kN))
    clear_stages<Shape::kThreads>(reinterpret_cast<Pair*>(ring), kStages * kStage / 2);
#pragma unroll 1
  for (int slot = 0; slot < kStages - 1; slot++) {
    if (is_whole()) {
#pragma unroll
      for (int quarter = 0; quarter < 4; quarter++) issue_load(slot, quarter);
    } else {
      issue_edge(slot);
    }
    left -= kDepth;
    cp_async_commit();
  }
  constexpr int kChunkStages = kProductChunk / kDepth;
  const int issuing_whole = is_whole() ? left / kDepth : 0;  // stages during which whole ones are loaded
  if (!InParts && stages > kChunkStages && !to_partials) {
#pragma unroll 1
    for (int pair_index = 0; pair_index < kPairs; pair_index++)
      totals[pair_index * Shape::kThreads] = {-0., -0.};  // -0 + x is x
  }
  cp_async_wait<kStages - 2>();
  __syncthreads();
  int reading = 0, writing = kStages - 1, stage = 0;
  load_b(reading, 0);
#pragma unroll
  for (int i = 0; i < kDown; i++) load_a(i, reading, 0);

  // Once multiplied, a row of fragments makes room for that of the next half, and part of a later stage is loaded.
  const auto multiply_stage = [&](auto issues_whole) {
    constexpr bool kWhole = decltype(issues_whole)::value;
    const bool whole = kWhole || is_whole();
    if (!whole) issue_edge(writing);
#pragma unroll
    for (int i = 0; i < kDown; i++) {
      if (i == kDown - 1) load_b(reading, 1);
      multiply(i, 0);
      load_a(i, reading, 1);
      constexpr int kQuarters = 4 / kDown;
#pragma unroll
      for (int q = 0; q < kQuarters; q++)
        if (whole) issue_load(writing, i * kQuarters + q);
    }
    left -= kDepth;
    cp_async_commit();
    writing = writing == kStages - 1 ? 0 : writing + 1;
    cp_async_wait<kStages - 2>();
    __syncthreads();  // the next stage is there for all, and all have read this one
    // Behind the last stage it is read once more: what is loaded then is not used.
    if (++stage < stages || kWhole) reading = reading == kStages - 1 ? 0 : reading + 1;
#pragma unroll
    for (int i = 0; i < kDown; i++) {
      if (i == kDown - 1) load_b(reading, 0);
      multiply(i, 1);
      load_a(i, reading, 0);
    }
  };
#pragma unroll 1
  for (int chunk = 0;; chunk++) {
    int end = min(stages, stage + kChunkStages);
    if constexpr (InParts) end = min(end, (stage / (job.part / kDepth) + 1) * (job.part / kDepth));
    const bool folds = !InParts && chunk > 0 && !to_partials;
    if (folds) {  // while other warps multiply
#pragma unroll
      for (int pair_index = 0; pair_index < kPairs; pair_index++) {
        if (pair_index % 4 == 0) __syncwarp();  // or all would be folded at once, in registers that are not there
        totals[pair_index * Shape::kThreads] = total_of(pair_index);
      }
    }
#pragma unroll
    for (int pair_index = 0; pair_index < kPairs; pair_index++) sum_at(pair_index, 0) = sum_at(pair_index, 1) = 0;
    // Two at a time and no branch inside: before one the compiler waits for the end of all products.
#pragma unroll 1
    while (stage + 2 <= min(end, issuing_whole)) {
      multiply_stage(std::true_type());
      multiply_stage(std::true_type());
    }
#pragma unroll 1
    while (stage < end) multiply_stage(std::false_type());
    if constexpr (InParts) {
      const int part_stages = job.part / kDepth;
      const int part = (stage - 1) / part_stages, part_end = (part + 1) * part_stages;
      const bool part_ends = stage == stages || stage == part_end;
      const auto add = [&](const Pair* waiting) {
#pragma unroll
        for (int pair_index = 0; pair_index < kPairs; pair_index++) {
          if (pair_index % 16 == 0) __syncwarp();  // as many as registers hold, while there are no fragments
          const Pair total = waiting[pair_index * Shape::kThreads];
#pragma unroll
          for (int v = 0; v < 2; v++) sum_at(pair_index, v) = total.element[v] + sum_at(pair_index, v);
        }
      };
      const auto keep = [&](Pair* waiting) {
#pragma unroll
        for (int pair_index = 0; pair_index < kPairs; pair_index++)
          waiting[pair_index * Shape::kThreads] = {sum_at(pair_index, 0), sum_at(pair_index, 1)};
      };
      if (stage - (part_end - part_stages) > kChunkStages) add(totals);  // of the part's chunks before
      if (part_ends) {
        unsigned levels = joined_levels(unsigned(part), job.parts);
#pragma unroll 1
        for (int level = 0; levels != 0; level++, levels >>= 1)
          if (levels & 1) add(waiting_tile<Shape>(job, level));
      }
      if (stage < stages) {
        if (part_ends) {
          keep(waiting_tile<Shape>(job, level_of(unsigned(part))));
        } else {
          keep(totals);
        }
        load_b(reading, 0);
#pragma unroll
        for (int i = 0; i < kDown; i++) load_a(i, reading, 0);
        continue;
      }
    }
    if (stage < stages && !to_partials) continue;

    // Made again, or the loop would keep registers for it.
    const TileCoord<T, Shape> here(job, unsigned(opaque(int(tile))));
    const int first_row = int(here.own_i - here.i), first_column = int(here.own_j - here.j);
    double* const partial = job.partials + (here.chunk - job.first + chunk) * args.batch * args.m * args.n;
    const int64_t start = (here.batch * args.m + here.i) * args.n + here.j;
    const int lines_a = lines_of(args.m), lines_b = lines_of(args.n);
    const auto is_own = [&](int row, int column) {
      return row < lines_a && row >= first_row && column < lines_b && column >= first_column;
    };
    if (job.direct) {
      double* const to = (to_partials ? partial : static_cast<double*>(args.output)) + start;
      const double alpha = to_partials ? 1 : args.alpha;
      const bool adds = !to_partials && args.added.data != nullptr;
#pragma unroll
      for (int pair_index = 0; pair_index < kPairs; pair_index++) {
        Pair pair{sum_at(pair_index, 0), sum_at(pair_index, 1)};
        if (folds) pair = total_of(pair_index);
        pair.element[0] *= alpha, pair.element[1] *= alpha;  // by 1 changes nothing
        const int row = row_of(pair_index), column = column_of(pair_index);
        if (!is_own(row, column)) continue;
        if (adds) add_vector<double>(args, here.batch, here.i + row, here.j + column, pair.element);
        *reinterpret_cast<Pair*>(to + row * args.n + column) = pair;
      }
    } else {  // by way of shared memory, for registers have no index at run time
#pragma unroll
      for (int pair_index = 0; pair_index < kPairs; pair_index++) {
        Pair pair{sum_at(pair_index, 0), sum_at(pair_index, 1)};
        if (folds) pair = total_of(pair_index);
        totals[pair_index * Shape::kThreads] = pair;
      }
      // Of so many pairs at once: first what each needs from memory, then the stores, over which no load moves.
      const auto for_own = [&]<int AtOnce>(auto load, auto store) {
#pragma unroll 1
        for (int first = 0; first < kPairs; first += AtOnce) {
          Pair loaded[AtOnce];
#pragma unroll
          for (int at = 0; at < 2 * AtOnce; at++) {
            const int row = row_of(first + at / 2), column = column_of(first + at / 2) + at % 2;
            if (is_own(row, column)) loaded[at / 2].element[at % 2] = load(row, column);
          }
#pragma unroll
          for (int at = 0; at < 2 * AtOnce; at++) {
            const int row = row_of(first + at / 2), column = column_of(first + at / 2) + at % 2;
            const Pair pair = totals[(first + at / 2) * Shape::kThreads];
            if (is_own(row, column)) store(row, column, pair.element[at % 2], loaded[at / 2].element[at % 2]);
          }
        }
      };
      double* const to = (to_partials ? partial : static_cast<double*>(args.output)) + start;
      if (!to_partials && args.added.data != nullptr) {
        for_own.template operator()<Shape::kM == 128 ? 1 : 4>(
            [&](int row, int column) {
              return added_of<double, double>(args, here.batch, here.i + row, here.j + column);
            },
            [&](int row, int column, double value, double added) {
              to[row * args.n + column] = sum_of<double>(args, value, added);
            });
      } else {
        const double alpha = to_partials ? 1 : args.alpha;
        for_own.template operator()<4>(
            [](int, int) { return 0.; },
            [&](int row, int column, double value, double) { to[row * args.n + column] = alpha * value; });
      }
    }
    if (stage == stages) break;
  }
  cp_async_wait<0>();
}

template <class T, class Shape, bool KMajorA, bool KMajorB, bool InParts, bool Pairs>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    multiply_tensor_tiles(const __grid_constant__ TileJob<T> job) {
#if defined(CUDA_ON_CPU) || __CUDA_ARCH__ == 900
  if constexpr (!InParts) multiply_tensor_tile<T, Shape, KMajorA, KMajorB, false, Pairs>(job, blockIdx.x);
  else for_tiles(job, [&](unsigned tile) { multiply_tensor_tile<T, Shape, KMajorA, KMajorB, true, Pairs>(job, tile); });
#endif
}

// Is the kernel more than its empty body for other architectures? It is not where their PTX was translated.
template <class T>
bool tensor_tiles_compiled() {
  static const bool found = code_of(multiply_tensor_tiles<T, DmmaTile, true, true, false, true>).ptx_version == 90;
  return found;
}

}  // namespace torch_reductions::cuda::matmul
