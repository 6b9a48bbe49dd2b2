// The kernel for results of few rows: a block has little to multiply and much to read, so that some warps only copy and
// the others only multiply, each at its own pace. A stage of the ring is handed over by two barriers: `full` when its
// copies have arrived, `empty` when its last fragment has been read. No warp waits for another one with the same role.
// Where a chain is all that takes time, several groups of warps copy stages in turns, all of which lie in whole vectors.
#pragma once
#include "../../primitives/dependent.cuh"
#include "../../primitives/mbarrier.cuh"
#include "kernel.cuh"

namespace torch_reductions::cuda::matmul {

template <class Tile>
inline constexpr size_t kBarrierBytes = Tile::kCopyGroups > 0 ? 2 * Tile::kStages * sizeof(uint64_t) : 0;

template <class T, class Tile, bool RowsAlongK, bool ColumnsAlongK>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    multiply_narrow(const __grid_constant__ TensorProduct product) {
  using Sum = ProductOf<T>;
  constexpr int kGroups = Tile::kCopyGroups, kFirst = Tile::kMultiplying;
  using Rows = SharedTile<T, Tile::kRows, Tile::kDepthBytes, RowsAlongK, kFirst, kCopying, kGroups>;
  using Columns = SharedTile<T, Tile::kColumns, Tile::kDepthBytes, ColumnsAlongK, kFirst, kCopying, kGroups>;
  constexpr int kAcross = Tile::kWarpColumns / 8;
  static_assert(Tile::kWarpRows == 16 && kAcross <= 2, "one read of each operand a step");
  using Read = Fragments<1, kAcross>;
  constexpr unsigned kStages = Tile::kStages;
  constexpr int kSteps = Tile::kDepthBytes / 32, kChunk = kChunkStages<T, Rows::kDepth>;
  // Barriers answer late: where a chain is all that takes time, the next stage is asked for, and the one before released,
  // while steps are multiplied.
  constexpr bool kAsksEarly = kGroups > 1;
  constexpr int kAhead =
      kAcross == 1 && !kAsksEarly ? 1 : 3;  // steps, that fragments are read before they are multiplied
  static_assert(kSteps % (kAhead + 1) == 0, "every stage begins in the same registers");
  char* const shared = reinterpret_cast<char*>(memory);
  // Behind the stages, because their address is in a register then: a chain waits while another one is computed.
  uint64_t *const full = reinterpret_cast<uint64_t*>(shared + Tile::kBytes), *const empty = full + kStages;
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
  const int warp_row = warp / Tile::kWarpsAcross * Tile::kWarpRows;
  const int warp_column = warp % Tile::kWarpsAcross * Tile::kWarpColumns;
  const bool multiplies = threadIdx.x < kFirst;
  if (threadIdx.x < kStages) {
    mbarrier_init(full + threadIdx.x, kCopying);
    mbarrier_init(empty + threadIdx.x, Tile::kMultiplying);  // every lane: racecheck sees no order by way of one
  }
  __syncthreads();

  unsigned before = 0;  // stages of this block's tiles before
  for (unsigned tile = blockIdx.x; tile < product.tiles; tile += gridDim.x) {
    const TensorTileCoord coord(product, tile);
    const int stages = int((coord.depth + Rows::kDepth - 1) / Rows::kDepth);
    Sum sums[1][kAcross][4];
    if (!multiplies) {
      typename Rows::Loader rows(product.rows, coord.factors, int64_t(coord.row) * Tile::kRows, product.height,
                                 coord.begin, coord.depth);
      typename Columns::Loader columns(product.columns, coord.factors, int64_t(coord.column) * Tile::kColumns,
                                       product.width, coord.begin, coord.depth);
      const int whole = rows.whole < columns.whole ? rows.whole : columns.whole;
      const bool stored = !product.rows.vectors || !product.columns.vectors;  // not only copied
      const auto left_at = [&](int stage) { return coord.depth - int64_t(stage) * Rows::kDepth; };
      // The stage's place in shared memory, once it is free.
      const auto await_empty = [&](int stage) {
        const unsigned slot = (before + stage) % kStages;
        mbarrier_wait(empty + slot, ((before + stage) / kStages + 1) % 2);
        return slot;
      };
      if constexpr (kGroups > 1) {
        if (product.packed) await_launch_before();
        const int group = int(threadIdx.x - kFirst) / kCopying;
        const int64_t row_step = kGroups * Rows::kDepth * product.rows.k_stride;
        const int64_t column_step = kGroups * Rows::kDepth * product.columns.k_stride;
        rows.skip(group);
        columns.skip(group);
        typename Rows::Loader::Places of_rows(rows);
        typename Columns::Loader::Places of_columns(columns);
        const int all = int(coord.depth / Rows::kDepth);
        int stage = group;
#pragma unroll 1
        for (; stage < all; stage += kGroups) {
          const unsigned slot = await_empty(stage);
          char* const to = shared + slot * Tile::kStageBytes;
          of_rows.load(to, row_step);
          of_columns.load(to + Rows::kBytes, column_step);
          cp_async_mbarrier_arrive(full + slot);
        }
        if (stage < stages) {
          const unsigned slot = await_empty(stage);
          char* const to = shared + slot * Tile::kStageBytes;
          rows.skip(stage - group);
          columns.skip(stage - group);
          rows.load_vectors(to, left_at(stage));
          columns.load_vectors(to + Rows::kBytes, left_at(stage));
          cp_async_mbarrier_arrive(full + slot);
        }
      } else if (stored && rows.side_by_side() && columns.side_by_side()) {
        // As many stages as there are registers for are on their way.
        constexpr int kOnTheWay = kAcross == 1 ? 2 : 1;
        typename Rows::Loader::template Shifted<Rows::kPiecesAThread> of_rows[kOnTheWay];
        typename Columns::Loader::template Shifted<Columns::kPiecesAThread> of_columns[kOnTheWay];
#pragma unroll 1
        for (int first = 0; first < stages + kOnTheWay; first += kOnTheWay) {
#pragma unroll
          for (int i = 0; i < kOnTheWay; i++) {
            const int fetched = first + i, stage = fetched - kOnTheWay;
            if (stage >= 0 && stage < stages) {
              const unsigned slot = await_empty(stage);
              rows.put(shared + slot * Tile::kStageBytes, 0, of_rows[i]);
              columns.put(shared + slot * Tile::kStageBytes + Rows::kBytes, 0, of_columns[i]);
              mbarrier_arrive(full + slot);
            }
            if (fetched < stages) {
              rows.fetch(of_rows[i], 0, left_at(fetched));
              columns.fetch(of_columns[i], 0, left_at(fetched));
              rows.next();
              columns.next();
            }
          }
        }
      } else {
#pragma unroll 1
        for (int stage = 0; stage < stages; stage++) {
          const unsigned slot = await_empty(stage);
          char* const to = shared + slot * Tile::kStageBytes;
          if (stage < whole) {
            rows.load_whole(to);
            columns.load_whole(to + Rows::kBytes);
          } else {
            rows.load(to, left_at(stage));
            columns.load(to + Rows::kBytes, left_at(stage));
          }
          if (stored) {
            cp_async_commit();
            cp_async_wait<0>();
            mbarrier_arrive(full + slot);
          } else {
            cp_async_mbarrier_arrive(full + slot);
          }
        }
      }
    } else {
      Read fragments[kAhead + 1];
      const auto read = [&](unsigned slot, int step) {
        Read& to = fragments[step % (kAhead + 1)];
        const char* const at = shared + slot * Tile::kStageBytes;
        Rows::template fragment<false>(to.rows[0], at, warp_row, step, lane);
        Columns::template fragment<true>(to.columns[0], at + Rows::kBytes, warp_column, step, lane);
      };
      const auto await_stage = [&](int stage) {
        const unsigned slot = (before + stage) % kStages;
        mbarrier_wait(full + slot, (before + stage) / kStages % 2);
        return slot;
      };
      const auto release = [&](unsigned number) {
        __syncwarp();
        mbarrier_arrive(empty + number % kStages);
      };
      unsigned slot = 0;
      if (stages > 0) {
        slot = await_stage(0);
#pragma unroll
        for (int step = 0; step < kAhead; step++) read(slot, step);
      }
      int stage = 0;
      for (int chunk = 0;; chunk++) {
#pragma unroll
        for (int i = 0; i < kAcross * 4; i++) sums[0][i / 4][i % 4] = 0;
        const int end = stages - stage < kChunk ? stages : stage + kChunk;
#pragma unroll 1
        for (; stage < end; stage++) {
          const unsigned next = before + stage + 1;
          bool arrived = false;
#pragma unroll
          for (int step = 0; step < kSteps; step++) {
            if constexpr (kAsksEarly) {
              if (step == 1) arrived = mbarrier_test(full + next % kStages, next / kStages % 2);
              if (step == 2 && stage > 0) release(next - 2);
            }
            if (step + kAhead == kSteps) {
              if (!kAsksEarly) release(next - 1);
              if (stage + 1 < stages) {
                slot = next % kStages;
                if (!arrived) await_stage(stage + 1);
              }
            }
            // Behind the last stage what is read again is not used.
            read(slot, (step + kAhead) % kSteps);
            const Read& from = fragments[step % (kAhead + 1)];
#pragma unroll
            for (int j = 0; j < kAcross; j++) mma_sync<T>(sums[0][j], from.rows[0], from.of_column(j));
          }
        }
        if constexpr (!std::is_integral_v<T>) add_to_total<Tile>(product, sums, chunk == 0, stage == stages);
        if (stage == stages) break;
      }
      if (kAsksEarly && stages > 0) release(before + stages - 1);
    }
    __syncthreads();  // no thread reads the stages any more
    if (multiplies) store_sums<T, Tile>(product, coord, shared, sums);
    __syncthreads();  // before the next tile's stages
    before += unsigned(stages);
  }
}

}  // namespace torch_reductions::cuda::matmul
