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
#include "../../primitives/dependent.cuh"
#include "../../primitives/tma.cuh"
#include "../../primitives/warp.cuh"
#include "../../primitives/wgmma.cuh"
#include "../elements.cuh"
#include "hopper.h"

namespace torch_reductions::cuda::matmul {

namespace {

constexpr int kRows = 64;                          // of a warpgroup's part of the result's tile
constexpr int kPartBytes = kRows * kTileRowBytes;  // of 64 rows of a step, or of 64 columns of its k rows
constexpr int kRingBytes = 192 * 1024, kAlignment = 1024;
constexpr int kStagingBytes = 16 * kRows * 4;  // a warp's 16 rows of 64 columns of sums

template <int M>
inline constexpr int kMultiplyingWarps = M / 16;
template <int M>
inline constexpr int kBlockThreads = 128 + kMultiplyingWarps<M> * 32;
template <int M>
inline constexpr int kSharedBytes = kAlignment + kRingBytes + kMultiplyingWarps<M> * kStagingBytes;
template <int M, int N>
inline constexpr int kStepBytes = (M + N) * kTileRowBytes;
template <int M, int N, bool InParts>
inline constexpr int kSlots = (kRingBytes - InParts * M * N * 4) / kStepBytes<M, N>;
template <class T>
inline constexpr int kStep = kTileRowBytes / int(sizeof(T));  // elements of k

// One launch.
struct Plan {
  MatmulArgs args;
  int log_cluster;              // 1: 2-CTA clusters, 0: single blocks
  int tiles_m, tiles_n, tiles;  // of a cluster, which are one or two tiles high; tiles: of all batches and pieces of k
  int steps, chain;             // steps of k, and how many of them are one chain
  int first, piece;             // steps of k: where the first piece begins, and how long each is
  int batches;                  // of each piece
  int a_batches, b_batches;     // 1 where each batch has a matrix of its own, 0 where all have the same
  bool vec4, vec8;              // may four, or eight elements of a row be stored at once?
  bool convert_only;            // alpha is 1 and nothing is added: the epilogue only rounds
  uint4* totals;                // of the chains so far, where there are several: a part for each block
};

inline constexpr int kNearLevels = 2;  // of totals that wait in a multiprocessor
inline constexpr int kGroup = 16;      // elements of k of 2 bytes that one instruction multiplies

__device__ __forceinline__ int part_length(const Plan& plan) {
  return (int(plan.args.k) + plan.args.parts - 1) / plan.args.parts;
}

// The steps of k of a part, and the groups behind the last whole one: the rest of that step is the next part's.
struct PartSteps {
  int whole, groups;

  __device__ __forceinline__ PartSteps(const Plan& plan, int part) {
    const int k = int(plan.args.k), length = part_length(plan);
    const int all = (min(length, k - part * length) + kGroup - 1) / kGroup;
    whole = all / 4, groups = all % 4;
  }
  __device__ __forceinline__ int count() const { return whole + (groups > 0); }
};

// All parts but the last one have the same number.
__device__ __forceinline__ int steps_of_parts(const Plan& plan) {
  const int last = plan.args.parts - 1;
  return last * PartSteps(plan, 0).count() + PartSteps(plan, last).count();
}
__device__ __forceinline__ int k_in_parts(const Plan& plan, int step) {
  const int steps = PartSteps(plan, 0).count();
  return step / steps * part_length(plan) + step % steps * (4 * kGroup);
}

// Where a tile begins. Batches of one piece of k follow those of the piece before.
struct TileOrigin {
  int batch, i, j;
};

struct Steps {
  int begin, end;
};

__device__ __forceinline__ Steps steps_of(const Plan& plan, TileOrigin tile) {
  const int begin = plan.first + tile.batch / plan.batches * plan.piece;
  return {begin, min(begin + plan.piece, plan.steps)};
}

// Blocks that run at the same time share rows of a and columns of b, which then come from the L2: tiles are numbered
// down columns of 2048 rows, then to the right.
template <int M, int N>
__device__ __forceinline__ TileOrigin tile_at(const Plan& plan, int number, int rank) {
  const int per_batch = plan.tiles_m * plan.tiles_n, batch = number / per_batch, rest = number % per_batch;
  const int tall = (2048 / M) >> plan.log_cluster;
  const int top = rest / (tall * plan.tiles_n) * tall, height = min(plan.tiles_m - top, tall);
  const int within = rest - top * plan.tiles_n;
  return {batch, (((top + within % height) << plan.log_cluster) + rank) * M, within / height * N};
}

// A slot of the ring: the parity tells which time around.
template <int Slots>
struct Slot {
  int index = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void next() {
    if (++index == Slots) index = 0, parity ^= 1;
  }
};

struct Ring {
  uint64_t *full, *empty;
  char* steps;
};

// One step of `count` rows of a, or columns of b, for one block.
template <Major major>
__device__ __forceinline__ void copy_step(char* to, const CUtensorMap* map, int mn, int count, int k, int batch,
                                          uint64_t* full) {
  if constexpr (major == Major::k) tma_load(to, map, k, mn, batch, full);
  else
    for (int c = 0; c < count; c += kRows) tma_load(to + c * kTileRowBytes, map, mn + c, k, batch, full);
}

// A block's half of a step of N columns of b, for both: of its columns, or where there are 64 side by side, of its rows
// of k.
template <class T, Major major, int N>
__device__ __forceinline__ void copy_half(char* step, const CUtensorMap* map, int n, int k, int batch, uint64_t* full,
                                          int rank) {
  char* const to = step + rank * (N / 2) * kTileRowBytes;
  if constexpr (major == Major::k) tma_load_multicast(3, to, map, k, n + rank * (N / 2), batch, full);
  else if constexpr (N == kRows) tma_load_multicast(3, to, map, n, k + rank * (kStep<T> / 2), batch, full);
  else
    for (int c = 0; c < N / 2; c += kRows)
      tma_load_multicast(3, to + c * kTileRowBytes, map, n + rank * (N / 2) + c, k, batch, full);
}

// The producer, one thread.
template <class T, Major major_a, Major major_b, int M, int N, bool InParts>
__device__ __forceinline__ void load_tiles(const CUtensorMap* map_a, const CUtensorMap* map_b, const Plan& plan,
                                           Ring ring, int rank) {
  Slot<kSlots<M, N, InParts>> slot;
  await_launch_before();  // which may have packed what is loaded
  for (int number = blockIdx.x >> plan.log_cluster; number < plan.tiles; number += gridDim.x >> plan.log_cluster) {
    const TileOrigin tile = tile_at<M, N>(plan, number, rank);
    const int batch = tile.batch % plan.batches, batch_a = batch * plan.a_batches, batch_b = batch * plan.b_batches;
    const Steps steps = InParts ? Steps{0, steps_of_parts(plan)} : steps_of(plan, tile);
    for (int step = steps.begin; step < steps.end; step++, slot.next()) {
      uint64_t* const full = ring.full + slot.index;
      char* const a = ring.steps + slot.index * kStepBytes<M, N>;
      char* const b = a + M * kTileRowBytes;
      mbarrier_wait(ring.empty + slot.index, slot.parity ^ 1);  // the first time around at once
      mbarrier_arrive_expect_tx(full, kStepBytes<M, N>);
      const int k = InParts ? k_in_parts(plan, step) : step * kStep<T>;
      copy_step<major_a>(a, map_a, tile.i, M, k, batch_a, full);
      if (plan.log_cluster) copy_half<T, major_b, N>(b, map_b, tile.j, k, batch_b, full, rank);
      else copy_step<major_b>(b, map_b, tile.j, N, k, batch_b, full);
    }
  }
}

__device__ __forceinline__ void release_slot(Ring ring, int slot, int log_cluster) {
  __syncwarp();
  if (threadIdx.x % 32 < 1u << log_cluster) mbarrier_arrive_remote(ring.empty + slot, threadIdx.x % 32);
}

// One chain: `steps` steps, d begins at zero.
template <class T, Major major_a, Major major_b, int M, int N, int Slots>
__device__ __forceinline__ void multiply_chain(uint32_t (&d)[N / 2], int steps, int log_cluster, Ring ring,
                                               Slot<Slots>& slot, uint64_t first_a, uint64_t first_b) {
  int before = 0;  // the slot of the step before
  for (int step = 0; step < steps; step++) {
    mbarrier_wait(ring.full + slot.index, slot.parity);
    const uint64_t offset = uint64_t(unsigned(slot.index * kStepBytes<M, N>) >> 4);
    warpgroup_arrive();
#pragma unroll
    for (int k = 0; k < 4; k++)
      wgmma<T, major_a, major_b>(d, first_a + offset + k * kNextStep<major_a>,
                                 first_b + offset + k * kNextStep<major_b>, k > 0 || step > 0);
    warpgroup_commit();
    if (step > 0) {
      warpgroup_wait<1>();
      release_slot(ring, before, log_cluster);
    }
    before = slot.index;
    slot.next();
  }
  warpgroup_wait<0>();
  fence_operand(d);
  release_slot(ring, before, log_cluster);
}

// The first groups of a step. d goes on, or begins at zero.
template <class T, Major major_a, Major major_b, int M, int N, int Slots>
__device__ __forceinline__ void multiply_groups(uint32_t (&d)[N / 2], int groups, bool goes_on, int log_cluster,
                                                Ring ring, Slot<Slots>& slot, uint64_t first_a, uint64_t first_b) {
  mbarrier_wait(ring.full + slot.index, slot.parity);
  const uint64_t offset = uint64_t(unsigned(slot.index * kStepBytes<M, N>) >> 4);
#pragma unroll 1
  for (int k = 0; k < groups; k++) {
    warpgroup_arrive();
    wgmma<T, major_a, major_b>(d, first_a + offset + k * kNextStep<major_a>, first_b + offset + k * kNextStep<major_b>,
                               k > 0 || goes_on);
    warpgroup_commit();
    warpgroup_wait<0>();
    fence_operand(d);
  }
  release_slot(ring, slot.index, log_cluster);
  slot.next();
}

__device__ __forceinline__ void add_to(uint32_t& d, uint32_t total) {
  d = __float_as_uint(__uint_as_float(total) + __uint_as_float(d));
}

// waiting + d, so many loads at once.
template <int M, int N, int AtOnce>
__device__ __forceinline__ void join(uint32_t (&d)[N / 2], const uint4* waiting) {
#pragma unroll
  for (int i = 0; i < N / 8; i++) {
    if (AtOnce < N / 8 && i % AtOnce == 0) __syncwarp();
    const uint4 total = waiting[i * (kMultiplyingWarps<M> * 32)];
    add_to(d[4 * i], total.x), add_to(d[4 * i + 1], total.y);
    add_to(d[4 * i + 2], total.z), add_to(d[4 * i + 3], total.w);
  }
}

// Lets d wait. A thread finds only what it has kept itself.
template <int M, int N>
__device__ __forceinline__ void keep(const uint32_t (&d)[N / 2], uint4* waiting) {
#pragma unroll
  for (int i = 0; i < N / 8; i++)
    waiting[i * (kMultiplyingWarps<M> * 32)] = {d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]};
}

// The sums of all parts.
template <class T, Major major_a, Major major_b, int M, int N, int Slots>
__device__ __forceinline__ void multiply_in_parts(uint32_t (&d)[N / 2], const Plan& plan, Ring ring, Slot<Slots>& slot,
                                                  uint64_t first_a, uint64_t first_b) {
  constexpr int kAtOnce = 8;  // loads: more would need registers that are not there
  uint32_t one[N / 2];
  // Where this thread's totals of two parts wait, and of four and more: found anew, as the loop has no registers left.
  const auto thread = [] { return opaque(int(threadIdx.x)) - 128; };
  const auto two = [&] { return reinterpret_cast<uint4*>(ring.steps + Slots * kStepBytes<M, N>) + thread(); };
  const auto more = [&](int level) {
    return plan.totals + (int64_t(level - kNearLevels) * gridDim.x + blockIdx.x) * (M * N / 4) + thread();
  };
#pragma unroll 1
  for (int part = 0;; part++) {
    const PartSteps own(plan, part);
    if (own.whole > 0)
      multiply_chain<T, major_a, major_b, M, N>(d, own.whole, plan.log_cluster, ring, slot, first_a, first_b);
    if (own.groups > 0)
      multiply_groups<T, major_a, major_b, M, N>(d, own.groups, own.whole > 0, plan.log_cluster, ring, slot, first_a,
                                                 first_b);
    const unsigned joined = joined_levels(unsigned(part), unsigned(plan.args.parts));
    if (joined & 1) {
#pragma unroll
      for (int i = 0; i < N / 2; i++) add_to(d[i], one[i]);
    }
    if (joined & 2) join<M, N, kAtOnce>(d, two());
#pragma unroll 1
    for (int level = kNearLevels; joined >> level != 0; level++)
      if (joined >> level & 1) join<M, N, kAtOnce>(d, more(level));
    if (part + 1 == plan.args.parts) return;
    const int level = level_of(unsigned(part));
    if (level == 0) {
#pragma unroll
      for (int i = 0; i < N / 2; i++) one[i] = d[i];
    } else if (level == 1) {
      keep<M, N>(d, two());
    } else {
      keep<M, N>(d, more(level));
    }
  }
}

template <class Sum>
__device__ __forceinline__ Sum from_bits(uint32_t bits) {
  if constexpr (std::is_same_v<Sum, float>) return __uint_as_float(bits);
  else return bits;
}

// 16 rows of 64 columns from the staging buffer. With vec4 a lane has four columns of every second row; otherwise two
// of each row, 32 apart.
template <class Out, class Sum>
__device__ __forceinline__ void write_staged(const Plan& plan, const char* staging, int batch, int row, int column) {
  const MatmulArgs& args = plan.args;
  const int lane = threadIdx.x % 32, rows = int(min(args.m - row, int64_t(16)));
  Out* to = static_cast<Out*>(args.output) + (batch * args.m + row) * args.n + column;
  if (plan.vec4) {
    const int first = lane % 16 * 4;
    if (column + first >= args.n) return;
    to += lane / 16 * args.n + first;
#pragma unroll 2
    for (int r = lane / 16; r < rows; r += 2, to += 2 * args.n) {
      const uint4 words = reinterpret_cast<const uint4*>(staging)[r * 16 + (lane % 16 ^ (r & 3) * 2)];
      const Sum sums[4] = {from_bits<Sum>(words.x), from_bits<Sum>(words.y), from_bits<Sum>(words.z),
                           from_bits<Sum>(words.w)};
      AlignedVector<Out, 4> vector;
#pragma unroll
      for (int c = 0; c < 4; c++)
        vector.element[c] = plan.convert_only ? rounded<Out>(sums[c])
                                              : product_of<Out>(args, batch, row + r, column + first + c, sums[c]);
      *reinterpret_cast<AlignedVector<Out, 4>*>(to) = vector;
    }
  } else {
    const uint32_t* const words = reinterpret_cast<const uint32_t*>(staging);
#pragma unroll 2
    for (int r = 0; r < rows; r++, to += args.n) {
#pragma unroll
      for (int c = lane; c < kRows; c += 32) {
        const Sum sum = from_bits<Sum>(words[r * kRows + (c ^ (r & 3) * 8)]);
        if (column + c < args.n) to[c] = product_of<Out>(args, batch, row + r, column + c, sum);
      }
    }
  }
}

// 16 rows of 64 columns of 2 bytes, which lie in the staging buffer as rows of 32 words, permuted in groups of four.
// Where rows of the output begin at odd places, a lane takes its words from two.
template <class Out>
__device__ __forceinline__ void write_rounded(const Plan& plan, const uint32_t* staging, int batch, int row,
                                              int column) {
  const MatmulArgs& args = plan.args;
  const int lane = threadIdx.x % 32, rows = int(min(args.m - row, int64_t(16)));
  const int left = int(min(args.n - column, int64_t(kRows)));
  Out* to = static_cast<Out*>(args.output) + (batch * args.m + row) * args.n + column;
  if (plan.vec8) {
    const int piece = lane % 8;
    if (8 * piece >= left) return;
    to += lane / 8 * args.n + 8 * piece;
#pragma unroll
    for (int r = lane / 8; r < 16; r += 4, to += 4 * args.n)
      if (r < rows) *reinterpret_cast<uint4*>(to) = reinterpret_cast<const uint4*>(staging)[r * 8 + (piece ^ r & 7)];
    return;
  }
#pragma unroll 4
  for (int r = 0; r < rows; r++, to += args.n) {
    const int odd = reinterpret_cast<uintptr_t>(to) / sizeof(Out) % 2, first = 2 * lane + odd;
    const uint32_t word = staging[r * 32 + (lane ^ (r & 7) * 4)];
    const uint32_t next = staging[r * 32 + (min(lane + odd, 31) ^ (r & 7) * 4)];
    const uint32_t pair = odd ? __byte_perm(word, next, 0x5432) : word;
    if (first + 1 < left) *reinterpret_cast<uint32_t*>(to + first) = pair;
    else if (first < left) *reinterpret_cast<uint16_t*>(to + first) = uint16_t(pair);
    if (odd && lane == 0 && left > 0) *reinterpret_cast<uint16_t*>(to) = uint16_t(word);
  }
}

// A warp's 16 rows, 64 columns at a time, by way of shared memory: there each row of them is whole, and lines of the
// output are written at once. Columns are permuted by their row, so that neither way in nor way out meets a bank twice.
template <class T, int N>
__device__ __forceinline__ void write_rounded_tile(const Plan& plan, const uint32_t (&d)[N / 2], char* staging,
                                                   TileOrigin tile, int row) {
  constexpr auto pair = std::is_same_v<T, BFloat16> ? bfloat16_pair : half_pair;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int part = 0; part < N / kRows; part++) {
    if (tile.j + part * kRows >= plan.args.n) break;
    uint32_t* const words =
        reinterpret_cast<uint32_t*>(staging + part % 2 * (kStagingBytes / 2));  // the other half is read
#pragma unroll
    for (int c = 0; c < 8; c++) {
      const int at = part * 32 + 4 * c, word = lane / 4 * 32 + ((4 * c + lane % 4) ^ lane / 4 * 4);
      words[word] = pair(__uint_as_float(d[at]), __uint_as_float(d[at + 1]));
      words[word + 8 * 32] = pair(__uint_as_float(d[at + 2]), __uint_as_float(d[at + 3]));
    }
    __syncwarp();
    write_rounded<T>(plan, words, tile.batch, tile.i + row, tile.j + part * kRows);
  }
  __syncwarp();  // before the next tile
}

// All other sums: scaled, added to, wider, or of bytes.
template <class T, int N>
__device__ __forceinline__ void write_tile(const Plan& plan, const uint32_t (&d)[N / 2], char* staging, TileOrigin tile,
                                           int row) {
  using Sum = ProductOf<T>;
  const int lane = threadIdx.x % 32;
  uint2* const pairs = reinterpret_cast<uint2*>(staging) + lane / 4 * 32;
#pragma unroll
  for (int part = 0; part < N / kRows; part++) {
    if (tile.j + part * kRows >= plan.args.n) break;
    __syncwarp();  // all have read the part before
#pragma unroll
    for (int c = 0; c < 8; c++) {
      const int pair = (4 * c + lane % 4) ^ lane / 4 % 4 * 4, at = part * 32 + 4 * c;
      pairs[pair] = {d[at], d[at + 1]};
      pairs[pair + 8 * 32] = {d[at + 2], d[at + 3]};
    }
    __syncwarp();
    if (plan.args.output_dtype == plan.args.dtype)
      write_staged<T, Sum>(plan, staging, tile.batch, tile.i + row, tile.j + part * kRows);
    else write_staged<Sum, Sum>(plan, staging, tile.batch, tile.i + row, tile.j + part * kRows);
  }
}

// The consumers; `warp` is one of theirs.
template <class T, Major major_a, Major major_b, int M, int N, bool InParts>
__device__ __forceinline__ void multiply(const Plan& plan, Ring ring, int rank, int warp) {
  char* const staging = ring.steps + kRingBytes + warp * kStagingBytes;
  const uint64_t first_a = smem_descriptor(ring.steps + warp / 4 * kPartBytes, major_a, kPartBytes);
  const uint64_t first_b = smem_descriptor(ring.steps + M * kTileRowBytes, major_b, kPartBytes);
  Slot<kSlots<M, N, InParts>> slot;
  for (int number = blockIdx.x >> plan.log_cluster; number < plan.tiles; number += gridDim.x >> plan.log_cluster) {
    const TileOrigin tile = tile_at<M, N>(plan, number, rank);
    const Steps all = steps_of(plan, tile);
    uint32_t d[N / 2];
    if constexpr (InParts) {
      multiply_in_parts<T, major_a, major_b, M, N>(d, plan, ring, slot, first_a, first_b);
    } else {
      for (int step = all.begin; step < all.end; step += plan.chain) {
        const int steps = min(plan.chain, all.end - step);
        multiply_chain<T, major_a, major_b, M, N>(d, steps, plan.log_cluster, ring, slot, first_a, first_b);
        if constexpr (sizeof(T) == 2) {
          uint4* const totals = plan.totals + int64_t(blockIdx.x) * (M * N / 4) + (threadIdx.x - 128);
          if (plan.chain < plan.steps) {
            if (step != all.begin) join<M, N, N / 8>(d, totals);
            if (step + steps != all.end) keep<M, N>(d, totals);
          }
        }
      }
    }
    if constexpr (sizeof(T) == 2) {
      if (plan.convert_only && plan.args.output_dtype == plan.args.dtype) {
        write_rounded_tile<T, N>(plan, d, staging, tile, warp * 16);
        continue;
      }
    }
    write_tile<T, N>(plan, d, staging, tile, warp * 16);
  }
}

template <class T, Major major_a, Major major_b, int M, int N, bool InParts>
__global__ void __launch_bounds__(kBlockThreads<M>, 1)
    multiply_bulk_tiles(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                        const __grid_constant__ Plan plan) {
#ifdef HOPPER
  constexpr int kCount = kSlots<M, N, InParts>;
  __shared__ uint64_t full[kCount], empty[kCount];
  char* const begin = reinterpret_cast<char*>(memory);
  const Ring ring{full, empty, begin + (0u - shared_address(begin)) % kAlignment};
  if (threadIdx.x == 0) {
    prefetch_tensormap(&map_a);
    prefetch_tensormap(&map_b);
    for (int i = 0; i < kCount; i++) {
      mbarrier_init(full + i, 1);
      mbarrier_init(empty + i, kMultiplyingWarps<M> << plan.log_cluster);
    }
    fence_mbarrier_init();
  }
  const int rank = plan.log_cluster ? cluster_rank() : 0;
  if (plan.log_cluster) cluster_sync();
  else __syncthreads();
  const int warp = shuffle(int(threadIdx.x) / 32, 0);  // one value for all lanes, as the compiler can see
  if (warp < 4) {
    if constexpr (M == 128) setmaxnreg_dec<40>();
    if (threadIdx.x == 0) load_tiles<T, major_a, major_b, M, N, InParts>(&map_a, &map_b, plan, ring, rank);
  } else {
    if constexpr (M == 128) setmaxnreg_inc<232>();  // with fewer threads all have as many
    multiply<T, major_a, major_b, M, N, InParts>(plan, ring, rank, warp - 4);
  }
  if (plan.log_cluster) cluster_sync();  // the other block may still copy into this one's memory, and arrive there
#endif
}

}  // namespace
}  // namespace torch_reductions::cuda::matmul
