// Hopper's own engines: tiles of tensors that arrive at an mbarrier, and wgmma.
#pragma once
#include <cstdint>
#include <vector>

#include "../../../../csrc/common/dtype.h"

struct CUtensorMap_st;

namespace emulator {

// The address by which an instruction knows a place in shared memory.
uint32_t shared_address(const void* p);

// cp.async.bulk.tensor.3d with an mbarrier, to the blocks of the cluster whose bit is set; the map is one that this
// machine's cuTensorMapEncodeTiled has written.
void tma_load(void* shared, const CUtensorMap_st* map, int column, int row, int outer, uint64_t* barrier,
              unsigned blocks);

// wgmma, one thread's share: 64 rows, two columns for each sum, 32 bytes of k.
struct Product {
  uint32_t* sums;
  unsigned count;
  uint64_t a, b;  // descriptors
  bool add, mn_major_a, mn_major_b;
  torch_reductions::Dtype dtype;  // of the factors
};
// Asked for, a group when committed; it may be done at any time from then to the wait.
struct PendingProducts {
  std::vector<Product> open;
  std::vector<std::vector<Product>> groups;
};
void wgmma(const Product& product);
void warpgroup_commit();
void warpgroup_wait(unsigned pending);

}  // namespace emulator
