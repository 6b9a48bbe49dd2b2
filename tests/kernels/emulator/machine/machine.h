// The machine: a grid of blocks, of which some are resident; a block of warps of threads. One thread runs at a time.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "async.h"
#include "hopper.h"
#include "report.h"
#include "shared.h"

namespace emulator {

inline constexpr unsigned kWarpSize = 32;
struct Block;
struct Grid;
struct Warp;

enum class State : uint8_t { ready, at_barrier, in_warp_operation, done };

// What relaxed loads of an address have found, and how often in a row.
struct Seen {
  uint64_t bits;
  int times;
};

struct Thread {
  Block* block;
  Warp* warp;
  uint3 index;
  unsigned rank, lane;
  State state;
  bool idle;         // its turn ended because it looked at memory that nobody had changed
  const char* kind;  // of what it waits in
  Place place;
  void* stack_pointer;
  char* stack;
  PendingCopies copies;
  std::unordered_map<const void*, Seen> seen;
  PendingProducts products;
  bool waits = false;  // the last thing that it did with memory was to look in vain
};

using WarpAction = void (*)(void* const (&operands)[kWarpSize], unsigned lanes);

// What the lanes of `mask` do together. The last one to come does it for all: the others stand still meanwhile, so
// that their operands, which lie on their stacks, can be read and written.
struct WarpOperation {
  const char* kind = nullptr;  // null: not in use
  unsigned mask = 0, arrived = 0;
  Place place;
  uintptr_t pc = 0;
  WarpAction action = nullptr;
  void* operands[kWarpSize] = {};
};

struct Warp {
  unsigned number, live;  // live: a bit for each lane that has not returned
  uintptr_t pc;           // of the operation that is being done
  WarpOperation operations[kWarpSize];
};

// __syncthreads and its kin, and the named barriers of some of the threads.
struct Barrier {
  unsigned arrived = 0, expected = 0;
  Place place;
  std::vector<Thread*> members;                    // that have arrived
  int count = 0, all = 1, any = 0;                 // of their predicates
  int last_count = 0, last_all = 1, last_any = 0;  // of the round that ended
};
inline constexpr unsigned kBarriers = 16;

// A block while it is resident, on an OS thread of its own, whose thread-local storage is the block's shared memory.
struct Block {
  Grid* grid;
  int slot;         // which of the resident blocks
  uint64_t number;  // in the grid
  uint3 index;
  unsigned size, live;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Barrier barriers[kBarriers];
  Mbarriers mbarriers;
  SharedMemory shared;
  void* scheduler = nullptr;  // its stack pointer while a thread runs
  std::vector<unsigned> order;

  void run();

 private:
  void start();
  bool turn(Thread& thread);
  bool round();
  void check_deadlock() const;
};

struct Launch {
  dim3 grid, block;
  size_t shared_bytes = 0;
  bool cooperative = false;  // all blocks resident at once
  unsigned cluster = 1;      // neighbouring blocks that reach one another's shared memory; then all are resident
};

// The barrier of a cluster.
struct ClusterBarrier {
  unsigned arrived = 0, rounds = 0;
};

struct Grid {
  Launch launch;
  const void* kernel;
  const std::function<void()>* body;
  uint64_t blocks, next_block = 0, idle_rounds = 0;
  std::vector<Block*> resident = {};  // of clusters, by number; null: not yet, or no more
  std::vector<ClusterBarrier> clusters = {};
};

extern Thread* current;  // the running one; null while a scheduler or the host runs
extern Grid* current_grid;

// --- What device code calls ---

// The thread's turn ends. `idle`: nothing will come of it before another thread changes memory.
void end_turn(bool idle);

// Meets the lanes of mask; act(operands, lanes) runs once, when all that have not returned are there.
void meet(const char* kind, unsigned mask, const Place& place, void* operand, WarpAction action);

// Waits for `expected` threads (0: the block). The barrier then holds the predicates of this round.
const Barrier& wait_at_barrier(const char* kind, unsigned number, unsigned expected, bool predicate,
                               const Place& place);

void lane_returns(Thread& thread);

// Of clusters.
unsigned cluster_rank();
void cluster_sync();                         // barrier.cluster.arrive and wait
char* in_cluster(void* own, unsigned rank);  // where that block has what stands here in the own shared memory
Block* holder_of(const void* address);       // the block of the own cluster whose shared memory it is; null: none

// --- What the host calls ---

void run_grid(const Launch& launch, const void* kernel, const std::function<void()>& body);
const std::vector<const void*>& launched_kernels();  // each once

}  // namespace emulator
