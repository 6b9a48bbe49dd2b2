// Clusters: neighbouring blocks that reach one another's shared memory.
#include "machine.h"
#include "observer.h"

namespace emulator {
namespace {

unsigned size_of_cluster() { return current_grid->launch.cluster; }

}  // namespace

unsigned cluster_rank() { return unsigned(current->block->number % size_of_cluster()); }

void cluster_sync() {
  ClusterBarrier& barrier = current_grid->clusters[current->block->number / size_of_cluster()];
  const unsigned round = barrier.rounds;
  observer->release_to(&barrier);
  if (++barrier.arrived == size_of_cluster() * current->block->size) {
    barrier.arrived = 0;
    barrier.rounds++;
  }
  end_turn(false);
  while (barrier.rounds == round) end_turn(true);
  observer->acquire_from(&barrier);
}

char* in_cluster(void* own, unsigned rank) {
  const Block& block = *current->block;
  if (rank >= size_of_cluster()) fault("there is no block " + std::to_string(rank) + " in the cluster");
  if (rank == cluster_rank()) return static_cast<char*>(own);
  const Block* other = current_grid->resident[block.number - cluster_rank() + rank];
  if (other == nullptr) fault("a block of the cluster has not begun, or has returned");
  return other->shared.begin + block.shared.offset(own);
}

Block* holder_of(const void* address) {
  Block& block = *current->block;
  if (block.shared.holds(address)) return &block;
  if (size_of_cluster() == 1) return nullptr;
  for (unsigned rank = 0; rank < size_of_cluster(); rank++) {
    Block* const other = current_grid->resident[block.number - cluster_rank() + rank];
    if (other != nullptr && other->shared.holds(address)) return other;
  }
  return nullptr;
}

}  // namespace emulator
