// A block computes a tile of the result: panels of both operands come into shared memory stage by stage,
// asynchronously, and a thread multiplies TM lines of a by TN lines of b out of registers.
//
// The totals of the chunks before the open one wait in shared memory: registers hold one set of sums alone, so that two
// large blocks share a multiprocessor. A tile that reaches beyond the result is moved inside and computes some elements
// that another block stores; where the whole result is smaller, other lines stand in for those beyond the edge,
// and what is computed of them is not used.
//
// In parts, the totals of the open part wait there; those of earlier parts wait in memory, each thread's own, for the
// L2 to hold: blocks go from tile to tile.
#pragma once
#include "operand.cuh"
#include "tuning.h"

namespace torch_reductions::cuda::matmul {

template <class T>
struct TileJob {
  MatmulArgs args;
  Operand<T> a, b;
  unsigned tiles_m, tiles_n, group;  // tiles of `group` rows are neighbours in time: they share panels in the L2
  // Of chunks `first` to `last` a block multiplies `run`. Where that is not all of k, each one's values go to a
  // partial.
  int64_t first, last, run;
  bool direct;  // from registers to memory, 16 aligned bytes at a time; or else by way of shared memory, one by one
  ProductOf<T>* partials;
  // In parts, of `part` elements of k, a whole number of stages: how many, the tiles of all batches, and where totals
  // wait, at each level a tile for each block.
  unsigned parts, tiles;
  int part;
  ProductOf<T>* waiting;
};

// This thread's first vector of the tile that waits for this block at a level.
template <class Shape, class T>
__device__ __forceinline__ auto* waiting_tile(const TileJob<T>& job, int level) {
  using P = ProductOf<T>;
  constexpr int kV = 16 / int(sizeof(P));
  return reinterpret_cast<AlignedVector<P, kV>*>(
      job.waiting + (int64_t(level) * gridDim.x + blockIdx.x) * (Shape::kM * Shape::kN) + threadIdx.x * kV);
}

// body(tile) for each of the block's tiles.
template <class T, class Body>
__device__ __forceinline__ void for_tiles(const TileJob<T>& job, Body body) {
#pragma unroll 1
  for (unsigned tile = blockIdx.x; tile < job.tiles; tile += gridDim.x) {
    body(tile);
    __syncthreads();  // before the next tile's stages
  }
}

template <class T, class Shape, Layout A, Layout B>
struct TileSizes {
  using P = ProductOf<T>;
  static constexpr int kM = Shape::kM, kN = Shape::kN, kThreads = Shape::kThreads, kVector = 16 / int(sizeof(P));
  static constexpr bool kPadA = is_k_major(A), kPadB = is_k_major(B);
  static constexpr bool kHalved = kPadA && kPadB && sizeof(P) == 4 && kM == kN && Shape::kStages == 0;
  static constexpr int kDepth = tile_depth(sizeof(P), kHalved);
  static constexpr int kStages = Shape::kStages > 0 ? Shape::kStages : tile_stages(sizeof(P), kThreads, kHalved);
  // From one k to the next: padded where neighbouring threads write neighbours in k.
  static constexpr int kRowA = kM + kPadA * kVector, kRowB = kN + kPadB * kVector;
  static constexpr int kPanelA = kDepth * kRowA, kStage = kPanelA + kDepth * kRowB;
  static constexpr size_t kStageBytes = sizeof(P) * kStages * kStage, kTotalBytes = sizeof(P) * kM * kN;
};

// What a thread copies of the panel of one operand: its own pieces of each stage. The cursor goes from piece to piece,
// because registers are few: it is opaque, otherwise each piece would have an address of its own.
//
// Fewer lines than a panel's can be copied by copy() if kTakesFewer. Where threads are neighbours along the lines, each
// has one, and those beyond the last one copy earlier ones again: if all copied the same one, each would take as long
// as all together. Along k a thread has several lines, whose copies some shapes predicate one by one: predicates part the
// copies, between which the compiler sets empty instructions.
template <class T, class Shape, int Lines, int Depth, int Row, Layout kLayout, bool InParts>
struct Panel {
  using P = ProductOf<T>;
  static constexpr bool kKMajor = is_k_major(kLayout);
  static constexpr int kVector = vector_of<T>(kLayout);
  using Own = Pieces<Lines, Depth, Shape::kThreads, kKMajor, kVector, 8>;
  static constexpr bool kPredicates = kKMajor && Shape::kPredicated,
                        kWraps = !kKMajor && takes_fewer_lines<Shape>(InParts);
  static constexpr bool kTakesFewer = kPredicates || kWraps;
  static_assert(!kWraps || Own::kLineSteps == 1);
  static constexpr int kCount = Own::kCount;

  const Operand<T>& operand;
  const T* cursor;
  int offset;  // of the first piece in a panel

  __device__ __forceinline__ Panel(const Operand<T>& from, int64_t batch, int64_t first_line, int64_t first_k)
      : operand(from),
        cursor(from.at(batch, 0, 0) + (first_line + first_of(from)) * line_step() + (first_k + depth()) * depth_step()),
        offset(depth() * Row + line()) {}

  // Of the first piece in a panel: computed again where they are needed.
  static __device__ __forceinline__ int line() { return Own::line_of(opaque(int(threadIdx.x))); }
  static __device__ __forceinline__ int depth() { return Own::depth_of(opaque(int(threadIdx.x))); }
  __device__ __forceinline__ int64_t line_step() const { return kKMajor ? operand.mn_stride : 1; }
  __device__ __forceinline__ int64_t depth_step() const {
    return kLayout == Layout::any || !kKMajor ? operand.k_stride : 1;
  }
  static HOST_DEVICE constexpr int offset_of(int piece) { return Own::depth_step(piece) * Row + Own::line_step(piece); }

  static __device__ __forceinline__ int first_of(const Operand<T>& from) {
    return kWraps ? line() % int(min(from.lines, int64_t(Lines))) : line();
  }
  // How many of `lines` lines are this thread's first one, and behind it.
  static __device__ __forceinline__ int from_own(int lines) { return lines - line(); }
  // The next piece of a stage whose depth is wholly there, if `wanted`; `own` is from_own(lines). The last one leaves the
  // cursor at the next stage.
  __device__ __forceinline__ void copy(int piece, bool wanted, int own, P* stage) {
    copy_piece<kVector>(wanted && (!kPredicates || Own::line_step(piece) < own), stage + offset + offset_of(piece),
                        cursor + (kKMajor ? Own::depth_step(piece) : 0));
    const int64_t jump = kKMajor ? Own::kAcross * operand.mn_stride : Own::kThreadsOfK * operand.k_stride;
    if (!kKMajor || piece % Own::kDepthSteps == Own::kDepthSteps - 1) cursor = opaque(cursor + jump);
    if (kKMajor && piece == kCount - 1) cursor = opaque(cursor + (Depth - Own::kLineSteps * jump));
  }
  // A whole stage, of which `lines` and `left` elements of k are there; beyond them are others that are. If none is left,
  // zeros: the stage behind the last one is loaded, though not used.
  __device__ __forceinline__ void copy_edge(P* stage, int lines, int left) const {
    if (left <= 0) {
#pragma unroll
      for (int piece = 0; piece < kCount; piece++)
        *reinterpret_cast<AlignedVector<P, kVector>*>(stage + offset + offset_of(piece)) = {};
      return;
    }
    const int own_line = line(), own_depth = depth(), earlier = (1 << highest_bit(unsigned(lines))) - 1;
#pragma unroll 1
    for (int piece = 0; piece < kCount; piece++) {
      int l = own_line + Own::line_step(piece);
      const int d = min(own_depth + Own::depth_step(piece), left - 1) - own_depth;
      const bool wanted = !kPredicates || l < lines;
      if (kWraps) l = own_line;
      else if (l >= lines) l &= earlier;
      copy_piece<kVector>(wanted, stage + offset + offset_of(piece),
                          cursor + (l - own_line) * line_step() + d * depth_step());
    }
  }
  __device__ __forceinline__ void skip() { cursor += Depth * depth_step(); }
};

// Where a block's tile lies, and which part of k it multiplies.
template <class T, class Shape>
struct TileCoord {
  int64_t own_i, own_j, i, j;  // the tile's own beginning, and where it was moved to
  int64_t batch, chunk;
  int depth;

  __device__ __forceinline__ TileCoord(const TileJob<T>& job, unsigned block) {
    const MatmulArgs& args = job.args;
    const unsigned tiles = job.tiles_m * job.tiles_n, in_group = job.group * job.tiles_n;
    const unsigned tile = block % tiles, piece = block / tiles, first_row = tile / in_group * job.group;
    const unsigned rows = min(job.tiles_m - first_row, job.group);
    own_i = int64_t(first_row + tile % in_group % rows) * Shape::kM;
    own_j = int64_t(tile % in_group / rows) * Shape::kN;
    i = max(min(own_i, args.m - Shape::kM), int64_t(0));
    j = max(min(own_j, args.n - Shape::kN), int64_t(0));
    const unsigned batches = unsigned(args.batch);
    batch = piece % batches;
    chunk = job.first + int64_t(piece / batches) * job.run;
    depth = int(min(min(chunk + job.run, job.last) * kProductChunk, args.k) - chunk * kProductChunk);
  }
};

// Of all stages: lines beyond the edge that nobody copies are multiplied, though not used.
template <int Threads, class Vector>
__device__ __forceinline__ void clear_stages(Vector* stages, int vectors) {
#pragma unroll 1
  for (int i = int(threadIdx.x); i < vectors; i += Threads) stages[i] = {};
  __syncthreads();  // before others copy to them
}

template <class T, class Out, class Shape, Layout A, Layout B, bool InParts>
__device__ __forceinline__ void multiply_tile(const TileJob<T>& job, unsigned tile) {
  using P = ProductOf<T>;
  using Sizes = TileSizes<T, Shape, A, B>;
  constexpr int kV = Sizes::kVector, BK = Sizes::kDepth, kStages = Sizes::kStages, kThreads = Sizes::kThreads;
  constexpr int TM = Shape::kM / (8 * Shape::kWarpsM), TN = Shape::kN / (4 * Shape::kWarpsN), kW = TN < kV ? TN : kV;
  using Vector = AlignedVector<P, kV>;
  using Results = AlignedVector<P, kW>;  // neighbours of a row, which a thread stores at once
  P* const stages = reinterpret_cast<P*>(memory);
  Results* const totals = reinterpret_cast<Results*>(stages + kStages * Sizes::kStage) + threadIdx.x;
  const MatmulArgs& args = job.args;

  const TileCoord<T, Shape> coord(job, tile);
  const int lines_a = int(min(args.m, int64_t(Shape::kM))), lines_b = int(min(args.n, int64_t(Shape::kN)));
  using PanelA = Panel<T, Shape, Shape::kM, BK, Sizes::kRowA, A, InParts>;
  using PanelB = Panel<T, Shape, Shape::kN, BK, Sizes::kRowB, B, InParts>;
  const bool inside = (PanelA::kTakesFewer || lines_a == Shape::kM) && (PanelB::kTakesFewer || lines_b == Shape::kN) &&
                      A != Layout::any;
  const int depth = coord.depth, whole = depth / BK, tail = depth % BK;  // stages, and what a last one holds

  PanelA panel_a(job.a, coord.batch, coord.i, coord.chunk * kProductChunk);
  PanelB panel_b(job.b, coord.batch, coord.j, coord.chunk * kProductChunk);
  constexpr int kPiecesA = PanelA::kCount, kPieces = kPiecesA + PanelB::kCount;
  const auto copy_piece_of = [&](int piece, bool wanted, int own_a, int own_b, P* stage) {
    if (piece < kPiecesA) panel_a.copy(piece, wanted, own_a, stage);
    else panel_b.copy(piece - kPiecesA, wanted, own_b, stage + Sizes::kPanelA);
  };
  const auto copy_edge = [&](int step, P* stage) {
    panel_a.copy_edge(stage, lines_a, depth - step * BK);
    panel_b.copy_edge(stage + Sizes::kPanelA, lines_b, depth - step * BK);
  };
  const auto skip = [&] {
    panel_a.skip();
    panel_b.skip();
  };

  // Eight lanes lie along the lines of a and four along those of b, so that 16-byte loads of neighbours fill all banks.
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int i_of_thread = warp % Shape::kWarpsM * (8 * TM) + (lane >> 1 & 7) * kV;
  const int j_of_thread = warp / Shape::kWarpsM * (4 * TN) + (lane & 1 | lane >> 4 << 1) * kW;
  P sums[TM][TN];
  constexpr int kAhead = sizeof(P) == 8 ? 1 : Shape::kAhead, kBuffers = kAhead + 1;  // of 8 bytes registers are few
  Vector a[kBuffers][TM / kV];
  Results b[kBuffers][TN / kW];
  const auto clear = [&] {
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j++) sums[i][j] = 0;
  };
  const auto load = [&](int to, const P* stage, int k) {
    const P* const from_a = stage + k * Sizes::kRowA + i_of_thread;
    const P* const from_b = stage + Sizes::kPanelA + k * Sizes::kRowB + j_of_thread;
#pragma unroll
    for (int i = 0; i < TM / kV; i++) a[to][i] = *reinterpret_cast<const Vector*>(from_a + i * 8 * kV);
#pragma unroll
    for (int j = 0; j < TN / kW; j++) b[to][j] = *reinterpret_cast<const Results*>(from_b + j * 4 * kW);
  };
  // Down one column and up the next: neighbours share an operand, which spares the registers' banks.
  const auto multiply = [&](int from) {
#pragma unroll
    for (int j = 0; j < TN; j++)
#pragma unroll
      for (int step = 0; step < TM; step++) {
        const int i = j % 2 ? TM - 1 - step : step;
        sums[i][j] = multiply_add(a[from][i / kV].element[i % kV], b[from][j / kW].element[j % kW], sums[i][j]);
      }
  };
  // Line i and results j of this thread: where they stand in the tile.
  const auto row_of = [&](int i) { return i_of_thread + i / kV * 8 * kV + i % kV; };
  const auto column_of = [&](int j) { return j_of_thread + j * 4 * kW; };

  if constexpr (PanelA::kPredicates || PanelB::kPredicates) {
    if ((PanelA::kPredicates && lines_a < Shape::kM) || (PanelB::kPredicates && lines_b < Shape::kN))
      clear_stages<kThreads>(reinterpret_cast<Vector*>(stages), kStages * Sizes::kStage / kV);
  }
#pragma unroll 1
  for (int stage = 0; stage < kStages - 1; stage++) {
    P* const to = stages + stage * Sizes::kStage;
    if (inside && stage < whole) {
#pragma unroll
      for (int piece = 0; piece < kPieces; piece++)
        copy_piece_of(piece, true, PanelA::from_own(lines_a), PanelB::from_own(lines_b), to);
    } else if (stage <= whole) {
      copy_edge(stage, to);
      skip();
    }
    cp_async_commit();
  }
  cp_async_wait<kStages - 2>();
  __syncthreads();
  clear();
#pragma unroll
  for (int k = 0; k < kAhead; k++) load(k, stages, k);

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
      const int own_a = fast ? PanelA::from_own(lines_a) : 0, own_b = fast ? PanelB::from_own(lines_b) : 0;
      P* const to = stages + writing * Sizes::kStage;
      if (!fast && (ahead * BK < depth || ahead == kStages - 1)) copy_edge(ahead, to);
      const P* from = stages + reading * Sizes::kStage;
      reading = reading == kStages - 1 ? 0 : reading + 1;
      writing = writing == kStages - 1 ? 0 : writing + 1;
#pragma unroll
      for (int k = 0; k < BK; k++) {
        if (k == BK - kAhead) {
          if constexpr (A == Layout::any) skip();
          cp_async_commit();
          cp_async_wait<kStages - 2>();
          __syncthreads();
          from = stages + reading * Sizes::kStage;
        }
        // Behind the last stage whatever stands there, and it is not used.
        load((k + kAhead) % kBuffers, from, (k + kAhead) % BK);
        if constexpr (A != Layout::any) {
          // In bursts: the compiler sets three empty instructions before each copy that follows a load.
          constexpr int kBursts = (kPieces + kBurst - 1) / kBurst, kEvery = (BK - 1) / kBursts;
          if (k % kEvery == 0 && k / kEvery < kBursts) {
#pragma unroll
            for (int piece = k / kEvery * kPieces / kBursts; piece < (k / kEvery + 1) * kPieces / kBursts; piece++)
              copy_piece_of(piece, fast, own_a, own_b, to);
          }
        }
        multiply(k % kBuffers);
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
      const int part_stages = job.part / BK;
      const bool part_ends = ends || chunk_end == part_end;
      const auto add = [&](const Results* waiting) {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
          for (int j = 0; j < TN / kW; j++) {
            const Results total = waiting[(i * (TN / kW) + j) * kThreads];
#pragma unroll
            for (int v = 0; v < kW; v++) sums[i][j * kW + v] = total.element[v] + sums[i][j * kW + v];
          }
      };
      const auto keep = [&](Results* waiting) {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
          for (int j = 0; j < TN / kW; j++) {
            Results total;
#pragma unroll
            for (int v = 0; v < kW; v++) total.element[v] = sums[i][j * kW + v];
            waiting[(i * (TN / kW) + j) * kThreads] = total;
          }
      };
      if (chunk_end - (part_end - part_stages) > kSteps) add(totals);  // of the part's chunks before
      const unsigned part = unsigned(part_end / part_stages - 1);
      if (part_ends) {
        unsigned levels = joined_levels(part, job.parts);
#pragma unroll 1
        for (int level = 0; levels != 0; level++, levels >>= 1)
          if (levels & 1) add(waiting_tile<Shape>(job, level));
      }
      if (!ends) {
        if (part_ends) {
          keep(waiting_tile<Shape>(job, level_of(part)));
          part_end += part_stages;
        } else {
          keep(totals);
        }
        clear();
        continue;
      }
    }
    const bool to_partials = job.partials != nullptr, stores = ends || to_partials;
    if (!stores || !job.direct) {
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN / kW; j++) {
          Results total;
          if (done > 0 && !to_partials) total = totals[(i * (TN / kW) + j) * kThreads];
#pragma unroll
          for (int v = 0; v < kW; v++) {
            const P sum = sums[i][j * kW + v];
            total.element[v] = done > 0 && !to_partials ? total.element[v] + sum : sum;
          }
          totals[(i * (TN / kW) + j) * kThreads] = total;
        }
    }
    if (stores) {
      // Computed again, otherwise the loop would keep registers for it.
      const TileCoord<T, Shape> here(job, unsigned(opaque(int(tile))));
      const int first_row = int(here.own_i - here.i), first_column = int(here.own_j - here.j);
      P* const partial = job.partials + (here.chunk - job.first + done) * args.batch * args.m * args.n;
      const int64_t start = (here.batch * args.m + here.i) * args.n + here.j;
      if (job.direct) {
        P* const to = (to_partials ? partial : static_cast<P*>(args.output)) + start;
        const P alpha = to_partials ? P(1) : P(args.alpha);
        const bool adds = !to_partials && args.added.data != nullptr;
#pragma unroll
        for (int i = 0; i < TM; i++) {
          if (row_of(i) >= lines_a || row_of(i) < first_row) continue;
#pragma unroll
          for (int j = 0; j < TN / kW; j++) {
            Results values;
            if (done > 0 && !to_partials) values = totals[(i * (TN / kW) + j) * kThreads];
#pragma unroll
            for (int v = 0; v < kW; v++) {
              const P sum = sums[i][j * kW + v];
              values.element[v] = done > 0 && !to_partials ? values.element[v] + sum : sum;
              if constexpr (std::is_floating_point_v<P>) values.element[v] *= alpha;  // by 1 changes nothing
            }
            if (column_of(j) < lines_b && column_of(j) >= first_column) {
              if constexpr (adds_vectors<P, Shape>(InParts))
                if (adds) add_vector<P>(args, here.batch, here.i + row_of(i), here.j + column_of(j), values.element);
              *reinterpret_cast<Results*>(to + row_of(i) * args.n + column_of(j)) = values;
            }
          }
        }
      } else {
        // Row by row of the warp's results, whichever lane computed them: neighbouring lanes store neighbours.
        constexpr int kRows = 8 * TM, kColumns = 4 * TN, kWide = kColumns < 32 ? kColumns : 32;
        const int row_of_warp = warp % Shape::kWarpsM * kRows, column_of_warp = warp / Shape::kWarpsM * kColumns;
        // Of so many rows at once: first what each needs from memory, then the stores, over which no load moves.
        const auto for_own = [&]<int AtOnce>(auto load, auto store) {
          constexpr int kStep = 32 / kWide;
#pragma unroll 1
          for (int c = lane % kWide; c < kColumns; c += kWide) {
            const int column = column_of_warp + c;
            if (column >= lines_b || column < first_column) continue;
            const Results* const of_column = totals + c / (4 * kW) * kThreads + (c / kW & 1) + (c / kW & 2) * 8 - lane;
#pragma unroll 1
            for (int first = lane / kWide; first < kRows; first += AtOnce * kStep) {
              P loaded[AtOnce];
#pragma unroll
              for (int at = 0; at < AtOnce; at++) {
                const int row = row_of_warp + first + at * kStep;
                if (row < lines_a && row >= first_row) loaded[at] = load(row, column);
              }
#pragma unroll
              for (int at = 0; at < AtOnce; at++) {
                const int r = first + at * kStep, row = row_of_warp + r, i = r / (8 * kV) * kV + r % kV;
                if (row < lines_a && row >= first_row)
                  store(row, column, of_column[i * (TN / kW) * kThreads + (r / kV & 7) * 2].element[c % kW],
                        loaded[at]);
              }
            }
          }
        };
        const auto nothing = [](int, int) { return P(); };
        __syncwarp();
        const P alpha = to_partials ? P(1) : P(args.alpha);
        const auto store_to = [&](auto* to) {
          for_own.template operator()<8>(nothing, [&](int row, int column, P value, P) {
            if constexpr (std::is_floating_point_v<P>) value *= alpha;
            to[row * args.n + column] = rounded<std::remove_pointer_t<decltype(to)>>(value);
          });
        };
        Out* const output = static_cast<Out*>(args.output) + start;
        if (!to_partials && args.added.data != nullptr) {
          if constexpr (Shape::kM * Shape::kN > 8192) {  // there registers are full
            for_own.template operator()<1>(nothing, [&](int row, int column, P value, P) {
              store_product<Out>(args, here.batch, here.i + row, here.j + column, value);
            });
          } else {
            for_own.template operator()<4>(
                [&](int row, int column) { return added_of<Out, P>(args, here.batch, here.i + row, here.j + column); },
                [&](int row, int column, P value, P added) {
                  output[row * args.n + column] = sum_of<Out>(args, value, added);
                });
          }
        } else if constexpr (std::is_same_v<Out, P>) {
          store_to(to_partials ? partial + start : output);
        } else {
          if (to_partials) store_to(partial + start);
          else store_to(output);
        }
        __syncwarp();  // before the totals of the next chunk
      }
    }
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
  else for_tiles(job, [&](unsigned tile) { multiply_tile<T, Out, Shape, A, B, true>(job, tile); });
}

}  // namespace torch_reductions::cuda::matmul
