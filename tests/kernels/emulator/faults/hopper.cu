// Hopper's engines: tiles on their way, products that take their time, clusters.
#include "../../../../csrc/cuda/primitives/bulk.cuh"
#include "../../../../csrc/cuda/primitives/cluster.cuh"
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
    init_barrier(&full, 1);
    init_barrier(&empty, 128);
  }
  __syncthreads();
  if (threadIdx.x == 128) {
    for (int step = 0; step < kSteps; step++) {
      await_phase(&empty, step % 2 ^ 1);
      arrive_and_expect(&full, kTileBytes);
      copy_tile(memory, &map, step * 64, 0, 0, &full);
    }
  } else if (threadIdx.x < 128) {
    uint32_t d[kColumns / 2];
    const uint64_t rows = tile_descriptor(memory, Along::k, 0);
    for (int step = 0; step < kSteps; step++) {
      if (early != Early::tile) await_phase(&full, step % 2);
      for (int k = 0; k < 4; k++) {
        const uint64_t at = rows + k * kNextStep<Along::k>;
        multiply_async<BFloat16, Along::k, Along::k>(d, at, at, k > 0 || step > 0);
      }
      commit_products();
      if (early != Early::slot && early != Early::products) await_products<0>();
      if (early == Early::products && step < kSteps - 1) await_products<0>();
      arrive_at(&empty, 0);
    }
    if (early == Early::slot) await_products<0>();
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
    init_barrier(&barrier, 1);
    publish_barriers();
  }
  sync_cluster();
  if (threadIdx.x == 0) arrive_at(&barrier, cluster_rank() ^ 1);
  if (sound) {
    await_phase(&barrier, 0);
    sync_cluster();
  }
  out[blockIdx.x * 32 + threadIdx.x] = cluster_rank();
}
FAULT(block_that_leaves_its_cluster, kPlain | kRaces | kAsan, "has not begun, or has returned") {
  Buffer<int> out(4 * 32);
  launch_clusters(meet<sound>, 2, 4, 32, 0, nullptr, out.begin());
  for (int i = 0; i < 128; i++)
    if (out[i] != i / 32 % 2) return "wrong result";
  return "";
}

}  // namespace
