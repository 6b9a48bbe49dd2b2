// A launch: the OS threads that hold the resident blocks, and the blocks that they take one after another.
#include <semaphore.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "fiber.h"
#include "machine.h"
#include "observer.h"
#include "schedule.h"
#include "shared.h"

namespace emulator {
namespace {

std::vector<const void*> kernels;

void check_launch(const Launch& launch, uint64_t blocks, uint64_t threads) {
  if (blocks == 0 || threads == 0 || threads > 1024 || launch.grid.y > 65535 || launch.grid.z > 65535)
    fault("a launch of " + std::to_string(blocks) + " blocks of " + std::to_string(threads) + " threads");
  if (launch.shared_bytes > kDynamicBytes)
    fault("a launch asks for " + std::to_string(launch.shared_bytes) + " bytes of dynamic shared memory, " +
          std::to_string(kDynamicBytes) + " is the most");
  if (launch.cluster == 0 || launch.cluster > 8 || blocks % launch.cluster != 0)
    fault("a launch of " + std::to_string(blocks) + " blocks in clusters of " + std::to_string(launch.cluster));
}

// One resident block after another. The first ones have their numbers before any of them acts: on a GPU, too, block 0 need
// not be the first to do something.
void run_slot(Grid& grid, int slot, unsigned threads, const SharedMemory& shared) {
  wait_for_baton(slot);
  Block block;
  block.grid = &grid, block.slot = slot, block.size = threads;
  block.shared = shared;
  block.threads.resize(threads);
  block.warps.resize((threads + kWarpSize - 1) / kWarpSize);
  const dim3& shape = grid.launch.grid;
  for (uint64_t number = uint64_t(slot); number < grid.blocks; number = grid.next_block++) {
    block.number = number;
    block.index = {unsigned(block.number % shape.x), unsigned(block.number / shape.x % shape.y),
                   unsigned(block.number / shape.x / shape.y)};
    if (grid.launch.cluster > 1) grid.resident[number] = &block;
    block.run();
    if (grid.launch.cluster > 1) grid.resident[number] = nullptr;
    offer_baton(slot, false);
  }
  for (Thread& thread : block.threads)
    if (thread.stack != nullptr) give_back_stack(thread.stack);
  release_shared_memory(block.shared);
  leave_turns(slot);
}

// The OS threads outlive a launch: the C library clears the thread-local storage of each new one, megabytes of it here.
struct Slot {
  sem_t begins;
  Grid* grid;
  unsigned threads;
};
sem_t ended;
std::vector<std::unique_ptr<Slot>>& pool = *new std::vector<std::unique_ptr<Slot>>;  // the process ends while they wait

void serve(Slot* own, int number) {
  const SharedMemory shared = find_shared_memory();
  for (;;) {
    sem_wait(&own->begins);
    run_slot(*own->grid, number, own->threads, shared);
    sem_post(&ended);
  }
}

void run_slots(Grid& grid, int count, unsigned threads) {
  while (pool.size() < size_t(count)) {
    pool.push_back(std::make_unique<Slot>());
    sem_init(&pool.back()->begins, 0, 0);
    std::thread(serve, pool.back().get(), int(pool.size()) - 1).detach();
  }
  for (int slot = 0; slot < count; slot++) {
    pool[slot]->grid = &grid, pool[slot]->threads = threads;
    sem_post(&pool[slot]->begins);
  }
  for (int slot = 0; slot < count; slot++) sem_wait(&ended);
}

}  // namespace

const std::vector<const void*>& launched_kernels() { return kernels; }

void run_grid(const Launch& launch, const void* kernel, const std::function<void()>& body) {
  const uint64_t blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
  const uint64_t threads = uint64_t(launch.block.x) * launch.block.y * launch.block.z;
  Grid grid{launch, kernel, &body, blocks};
  current_grid = &grid;
  check_launch(launch, blocks, threads);
  if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) kernels.push_back(kernel);
  observer->begin_launch();
  grid.resident.resize(launch.cluster > 1 ? blocks : 0), grid.clusters.resize(blocks / launch.cluster);
  const int slots =
      int(launch.cooperative || launch.cluster > 1 ? blocks : std::min<uint64_t>(blocks, uint64_t(options.resident)));
  grid.next_block = uint64_t(slots);
  begin_turns(slots);
  run_slots(grid, slots, unsigned(threads));
  current_grid = nullptr;
}

}  // namespace emulator
