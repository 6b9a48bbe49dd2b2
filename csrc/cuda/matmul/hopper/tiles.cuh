// The kernel of tensor_core_hopper: persistent blocks, of a producer warpgroup that loads tiles and one or two consumer
// warpgroups that multiply them.
//
// A tile of the result is M x N, 64 rows for each warpgroup that multiplies. A step is 128 bytes of k. Shared memory is
// a ring of steps, each the tile of a and behind it the tile of b: full[slot] tells that a step has arrived,
// empty[slot] that the warps that multiply have read it. In a 2-CTA cluster the tiles lie one above the other: each
// block loads its own rows of a, and one half of the columns of b for both; so empty[slot] waits for the warps of both.
//
// In parts, each part is a chain, whose steps begin at the part. The total of one part waits in registers, which 128
// columns leave room for; that of two parts behind the ring, whose slots are fewer; three quarters of all joins are
// theirs. Totals of more parts wait in the L2.
//
// Local:   multiply_bulk_tiles (8 bytes): in parts, of the thread that loads, and from tile to tile.
#pragma once
#include "../../primitives/cluster.cuh"
#include "../../primitives/tma.cuh"
#include "../../primitives/warp.cuh"
#include "../../primitives/wgmma.cuh"
#include "../totals.cuh"
#include "epilogue.cuh"
#include "hopper.h"

namespace torch_reductions::cuda::matmul {
namespace {

constexpr int kPartBytes = kRows * kTileRowBytes;  // of 64 rows of a step, or of 64 columns of its k rows
constexpr int kRingBytes = 192 * 1024, kAlignment = 1024;
constexpr int kNearLevels = 2;  // of totals that wait in a multiprocessor
constexpr int kGroup = 16;      // elements of k of 2 bytes that one instruction multiplies

// The steps of k of a part, and the groups behind the last whole one: the rest of that step is the next part's.
struct PartSteps {
  int whole, groups;

  __device__ __forceinline__ PartSteps(const MatmulArgs& args, int part) {
    const int k = int(args.k), all = (min(length(args), k - part * length(args)) + kGroup - 1) / kGroup;
    whole = all / 4, groups = all % 4;
  }
  static __device__ __forceinline__ int length(const MatmulArgs& args) {
    return (int(args.k) + args.parts - 1) / args.parts;
  }
  __device__ __forceinline__ int count() const { return whole + (groups > 0); }
};

struct Ring {
  uint64_t *full, *empty;
  char* steps;
};

// A block of the kernel, which is one of a cluster. `slot` is the next one of the ring, the parity tells which time
// around.
template <class T, Major major_a, Major major_b, int M, int N, bool InParts>
struct BulkTiles {
  static constexpr int kWarps = M / 16, kThreads = 128 + kWarps * 32;  // warps that multiply
  static constexpr int kStep = kTileRowBytes / int(sizeof(T)), kStepBytes = (M + N) * kTileRowBytes;
  static constexpr int kChain = sizeof(T) == 2 ? int(kTensorChunk) / kStep : INT32_MAX;  // steps
  static constexpr int kSlots = (kRingBytes - InParts * M * N * 4) / kStepBytes;
  static constexpr int kSharedBytes = kAlignment + kRingBytes + kWarps * kStagingBytes;
  using Sums = uint32_t[N / 2];
  using Totals = AlignedVector<uint32_t, 4>;

  // Rows of what one copy loads.
  static int box_rows_a() { return major_a == Major::k ? M : kStep; }
  static int box_rows_b(int log_cluster) {
    return major_b == Major::k ? N >> log_cluster : N == kRows ? kStep >> log_cluster : kStep;
  }

  const Plan& plan;
  const Ring ring;
  const int rank;
  int slot = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void next_slot() {
    if (++slot == kSlots) slot = 0, parity ^= 1;
  }

  // body(tile, its first row and column)
  template <class Body>
  __device__ __forceinline__ void for_each_tile(Body body) const {
    for (unsigned number = blockIdx.x >> plan.log_cluster; number < plan.schedule.tiles;
         number += gridDim.x >> plan.log_cluster) {
      const TileCoord tile(plan.args, plan.schedule, number);
      body(tile, ((int(tile.row) << plan.log_cluster) + rank) * M, int(tile.column) * N);
    }
  }

  // --- The producer, one thread ---------------------------------------------------------------------------------------

  // `count` rows of a, or columns of b, of one step.
  template <Major major, bool Multicast>
  __device__ __forceinline__ void copy(char* to, const CUtensorMap* map, int mn, int count, int k, int batch) const {
    for (int c = 0; c < (major == Major::k ? 1 : count); c += kRows) {
      const int x = major == Major::k ? k : mn + c, y = major == Major::k ? mn : k;
      if constexpr (Multicast) tma_load_multicast(3, to + c * kTileRowBytes, map, x, y, batch, ring.full + slot);
      else tma_load(to + c * kTileRowBytes, map, x, y, batch, ring.full + slot);
    }
  }

  __device__ __forceinline__ void load(const CUtensorMap* map_a, const CUtensorMap* map_b) {
    // A block's half of a step of b, for both: of its columns, or where there are 64 side by side, of its rows of k.
    constexpr bool kHalvesK = major_b == Major::mn && N == kRows;
    const int part_steps = InParts ? PartSteps(plan.args, 0).count() : 0;  // of all but the last
    const int last = plan.args.parts - 1;
    for_each_tile([&](const TileCoord& tile, int i, int j) {
      const int batch_a = plan.a_batches ? int(tile.batch) : 0, batch_b = plan.b_batches ? int(tile.batch) : 0;
      const int steps = InParts ? last * part_steps + PartSteps(plan.args, last).count()
                                : int((unsigned(tile.depth) + kStep - 1) / kStep);
      for (int step = 0; step < steps; step++, next_slot()) {
        char* const a = ring.steps + slot * kStepBytes;
        char* const b = a + M * kTileRowBytes;
        mbarrier_wait(ring.empty + slot, parity ^ 1);  // the first time around at once
        mbarrier_arrive_expect_tx(ring.full + slot, kStepBytes);
        const int k = InParts ? step / part_steps * PartSteps::length(plan.args) + step % part_steps * kStep
                              : int(tile.begin) + step * kStep;
        copy<major_a, false>(a, map_a, i, M, k, batch_a);
        if (plan.log_cluster)
          copy<major_b, true>(b + rank * (N / 2) * kTileRowBytes, map_b, kHalvesK ? j : j + rank * (N / 2),
                              kHalvesK ? N : N / 2, kHalvesK ? k + rank * (kStep / 2) : k, batch_b);
        else copy<major_b, false>(b, map_b, j, N, k, batch_b);
      }
    });
  }

  // --- The consumers --------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void release(int slot) const {
    __syncwarp();
    if (threadIdx.x % 32 < 1u << plan.log_cluster) mbarrier_arrive_remote(ring.empty + slot, threadIdx.x % 32);
  }

  // The product of group k of the step in the slot, of the warpgroup's rows: added to d, or d begins with it.
  __device__ __forceinline__ void multiply(Sums& d, int k, bool goes_on, uint64_t first_a, uint64_t first_b) const {
    const uint64_t offset = uint64_t(unsigned(slot * kStepBytes) >> 4);
    wgmma<T, major_a, major_b>(d, first_a + offset + k * kNextStep<major_a>, first_b + offset + k * kNextStep<major_b>,
                               goes_on);
  }

  // One chain: `steps` steps, d begins at zero.
  __device__ __forceinline__ void multiply_chain(Sums& d, int steps, uint64_t first_a, uint64_t first_b) {
    int before = 0;  // the slot of the step before
    for (int step = 0; step < steps; step++) {
      mbarrier_wait(ring.full + slot, parity);
      warpgroup_arrive();
#pragma unroll
      for (int k = 0; k < 4; k++) multiply(d, k, k > 0 || step > 0, first_a, first_b);
      warpgroup_commit();
      if (step > 0) {
        warpgroup_wait<1>();
        release(before);
      }
      before = slot;
      next_slot();
    }
    warpgroup_wait<0>();
    fence_operand(d);
    release(before);
  }

  // The first groups of a step. d goes on, or begins at zero.
  __device__ __forceinline__ void multiply_groups(Sums& d, int groups, bool goes_on, uint64_t first_a,
                                                  uint64_t first_b) {
    mbarrier_wait(ring.full + slot, parity);
#pragma unroll 1
    for (int k = 0; k < groups; k++) {
      warpgroup_arrive();
      multiply(d, k, k > 0 || goes_on, first_a, first_b);
      warpgroup_commit();
      warpgroup_wait<0>();
      fence_operand(d);
    }
    release(slot);
    next_slot();
  }

  // This thread's totals in a block's tile of them; the thread is found anew, as the loop has no registers left.
  static __device__ __forceinline__ Totals* own(void* totals) {
    return static_cast<Totals*>(totals) + (opaque(int(threadIdx.x)) - 128);
  }

  // The sums of all parts.
  __device__ __forceinline__ void multiply_parts(Sums& d, uint64_t first_a, uint64_t first_b) {
    Sums one;
    const auto two = [&] { return own(ring.steps + kSlots * kStepBytes); };
    const auto more = [&](int level) {  // four parts, and more
      return own(plan.totals + (int64_t(level - kNearLevels) * gridDim.x + blockIdx.x) * (M * N / 4));
    };
#pragma unroll 1
    for (int part = 0;; part++) {
      const PartSteps steps(plan.args, part);
      if (steps.whole > 0) multiply_chain(d, steps.whole, first_a, first_b);
      if (steps.groups > 0) multiply_groups(d, steps.groups, steps.whole > 0, first_a, first_b);
      const unsigned joined = joined_levels(unsigned(part), unsigned(plan.args.parts));
      if (joined & 1) {
#pragma unroll
        for (int i = 0; i < N / 2; i++) d[i] = sum_of<true>(one[i], d[i]);
      }
      // A few loads at once, or they would need registers that are not there.
      if (joined & 2) add_totals<kWarps * 32, 8, true>(d, two());
#pragma unroll 1
      for (int level = kNearLevels; joined >> level != 0; level++)
        if (joined >> level & 1) add_totals<kWarps * 32, 8, true>(d, more(level));
      if (part + 1 == plan.args.parts) return;
      const int level = level_of(unsigned(part));
      if (level == 0) {
#pragma unroll
        for (int i = 0; i < N / 2; i++) one[i] = d[i];
      } else if (level == 1) {
        keep_totals<kWarps * 32>(d, two());
      } else {
        keep_totals<kWarps * 32>(d, more(level));
      }
    }
  }

  // `warp` is one of those that multiply.
  __device__ __forceinline__ void multiply_tiles(int warp) {
    char* const staging = ring.steps + kRingBytes + warp * kStagingBytes;
    const uint64_t first_a = smem_descriptor(ring.steps + warp / 4 * kPartBytes, major_a, kPartBytes);
    const uint64_t first_b = smem_descriptor(ring.steps + M * kTileRowBytes, major_b, kPartBytes);
    for_each_tile([&](const TileCoord& tile, int i, int j) {
      Sums d;
      if constexpr (InParts) {
        multiply_parts(d, first_a, first_b);
      } else {
        const int steps = int((unsigned(tile.depth) + kStep - 1) / kStep);
        for (int step = 0; step < steps; step += kChain) {
          multiply_chain(d, min(kChain, steps - step), first_a, first_b);
          if constexpr (sizeof(T) == 2)  // a thread finds its own totals only, which lie in the L2
            fold_chain<kWarps * 32, true>(d, plan.totals + int64_t(blockIdx.x) * (M * N / 4) + (threadIdx.x - 128),
                                          step == 0, step + kChain >= steps);
        }
      }
      if constexpr (sizeof(T) == 2) {
        if (plan.convert_only && plan.args.output_dtype == plan.args.dtype)
          return write_rounded_tile<T, N>(plan, d, staging, int(tile.matrix), i + warp * 16, j);
      }
      write_tile<T, N>(plan, d, staging, int(tile.matrix), i + warp * 16, j);
    });
  }
};

template <class T, Major major_a, Major major_b, int M, int N, bool InParts>
__global__ void __launch_bounds__(BulkTiles<T, major_a, major_b, M, N, InParts>::kThreads, 1)
    multiply_bulk_tiles(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                        const __grid_constant__ Plan plan) {
#ifdef HOPPER
  using Tiles = BulkTiles<T, major_a, major_b, M, N, InParts>;
  __shared__ uint64_t full[Tiles::kSlots], empty[Tiles::kSlots];
  char* const begin = reinterpret_cast<char*>(memory);
  const Ring ring{full, empty, begin + (0u - shared_address(begin)) % kAlignment};
  if (threadIdx.x == 0) {
    prefetch_tensormap(&map_a);
    prefetch_tensormap(&map_b);
    for (int i = 0; i < Tiles::kSlots; i++) {
      mbarrier_init(full + i, 1);
      mbarrier_init(empty + i, Tiles::kWarps << plan.log_cluster);
    }
    fence_mbarrier_init();
  }
  const int rank = plan.log_cluster ? cluster_rank() : 0;
  if (plan.log_cluster) cluster_sync();
  else __syncthreads();
  const int warp = shuffle(int(threadIdx.x) / 32, 0);  // one value for all lanes, as the compiler can see
  Tiles tiles{plan, ring, rank};
  if (warp < 4) {
    if constexpr (M == 128) setmaxnreg_dec<40>();
    if (threadIdx.x == 0) tiles.load(&map_a, &map_b);
  } else {
    if constexpr (M == 128) setmaxnreg_inc<232>();  // with fewer threads all have as many
    tiles.multiply_tiles(warp - 4);
  }
  if (plan.log_cluster) cluster_sync();  // the other block may still copy into this one's memory, and arrive there
#endif
}

}  // namespace
}  // namespace torch_reductions::cuda::matmul
