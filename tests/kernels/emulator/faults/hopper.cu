// Hopper's engines: tiles on their way, products that take their time, clusters.
#include "../../../../csrc/cuda/primitives/cluster.cuh"
#include "../../../../csrc/cuda/primitives/tma.cuh"
#include "../../../../csrc/cuda/primitives/wgmma.cuh"
#include "fault.h"

namespace {
using namespace emulator::faults;
using namespace torch_reductions;
using namespace torch_reductions::cuda;

enum class Early { none, tile, products, slot };
constexpr int kSteps = 3, kColumns = 128, kTileBytes = kColumns * kTileRowBytes;

// One warpgroup multiplies the first 64 rows by all 128, k after k, through a ring of one tile; a fifth warp asks.
template <Early early>
__global__ void multiply_rows(const CUtensorMap map, uint32_t* out) {
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty, 128);
  }
  __syncthreads();
  if (threadIdx.x == 128) {
    for (int step = 0; step < kSteps; step++) {
      mbarrier_wait(&empty, step % 2 ^ 1);
      mbarrier_arrive_expect_tx(&full, kTileBytes);
      tma_load(memory, &map, step * 64, 0, 0, &full);
    }
  } else if (threadIdx.x < 128) {
    uint32_t d[kColumns / 2];
    const uint64_t rows = smem_descriptor(memory, Major::k, 0);
    for (int step = 0; step < kSteps; step++) {
      if (early != Early::tile) mbarrier_wait(&full, step % 2);
      for (int k = 0; k < 4; k++) {
        const uint64_t at = rows + k * kNextStep<Major::k>;
        wgmma<BFloat16, Major::k, Major::k>(d, at, at, k > 0 || step > 0);
      }
      warpgroup_commit();
      if (early != Early::slot && early != Early::products) warpgroup_wait<0>();
      if (early == Early::products && step < kSteps - 1) warpgroup_wait<0>();
      mbarrier_arrive_remote(&empty, 0);
    }
    if (early == Early::slot) warpgroup_wait<0>();
    for (int i = 0; i < kColumns / 2; i++) out[threadIdx.x * (kColumns / 2) + i] = d[i];
  }
}
template <Early early>
std::string run_products() {
  constexpr int k = kSteps * 64;
  Buffer<uint16_t> in(kColumns * k);
  Buffer<uint32_t> out(128 * kColumns / 2);
  for (int i = 0; i < kColumns * k; i++) in[i] = uint16_t(0x3f80 + i % k / 64 * 0x80);  // 1, 2 and 4
  const CUtensorMap map = map_of({in.begin(), k, kColumns, 1, k, kColumns * k}, Dtype::bfloat16, kColumns);
  launch_with_shared(multiply_rows<early>, 1, 160, kTileBytes, map, out);
  return expect_all(out, 0x44a80000u);  // 64 (1 + 4 + 16)
}
FAULT(tile_that_nobody_waits_for, kRaces, "race in shared memory|shared memory that nobody has written") {
  return run_products<sound ? Early::none : Early::tile>();
}
FAULT(products_that_nobody_waits_for, kPlain, "wrong result") {
  return run_products<sound ? Early::none : Early::products>();
}
FAULT(tile_replaced_while_it_is_multiplied, kPlain | kRaces, "wrong result|race in shared memory") {
  return run_products<sound ? Early::none : Early::slot>();
}

// A block may not return while another one of its cluster reaches for its shared memory.
template <bool sound>
__global__ void meet(int* out) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    mbarrier_init(&barrier, 1);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (threadIdx.x == 0) mbarrier_arrive_remote(&barrier, cluster_rank() ^ 1);
  if (sound) {
    mbarrier_wait(&barrier, 0);
    cluster_sync();
  }
  out[blockIdx.x * 32 + threadIdx.x] = cluster_rank();
}
FAULT(block_that_leaves_its_cluster, kPlain | kRaces | kAsan, "has not begun, or has returned") {
  Buffer<int> out(4 * 32);
  launch_clusters(meet<sound>, 2, false, 4, 32, 0, nullptr, out.begin());
  for (int i = 0; i < 128; i++)
    if (out[i] != i / 32 % 2) return "wrong result";
  return "";
}

}  // namespace
