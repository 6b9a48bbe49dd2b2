// The race detector: vector clocks over the accesses of an instrumented kernel.
//
// Two accesses to a byte, one of them a write, by two threads, and nothing orders one before the other: that is a race,
// whichever came first in this run. What orders them: barriers for their threads, __syncwarp for its lanes; and a fence,
// an atomic or relaxed access, one by another thread that reads it, and a fence there. Shuffles order nothing.

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <unordered_map>

#include "fiber.h"
#include "observer.h"

namespace emulator {
namespace {

using Clock = uint32_t;  // 0: before everything
using Clocks = std::vector<Clock>;

// What a thread knows of blocks: for each, how far it has seen each of its threads.
using View = std::map<uint64_t, std::shared_ptr<const Clocks>>;

void join(View& into, const View& from) {
  for (const auto& [block, clocks] : from) {
    auto& known = into[block];
    if (known == nullptr || known == clocks) {
      known = clocks;
      continue;
    }
    auto joined = std::make_shared<Clocks>(*known);
    for (size_t i = 0; i < joined->size(); i++) (*joined)[i] = std::max((*joined)[i], (*clocks)[i]);
    known = joined;
  }
}

struct ThreadClocks {
  Clock now = 1;
  std::array<Clock, kWarpSize> warp{};  // seen of its own warp's lanes
  View view;                            // seen of other blocks, and of its own by other ways than barriers
  View acquired;                        // read by relaxed loads: a fence makes it seen
  View released;                        // seen at the last fence: relaxed stores hand it on
};

struct BlockClocks {
  std::vector<ThreadClocks> threads;
  Clocks base;  // of each thread, seen by all since the last barrier of the whole block
};

struct Access {  // 16 bytes: how many fit into a cache line decides the detector's speed
  uint32_t block = 0;
  Clock clock = 0;  // 0: none
  uint32_t pc = 0;
  uint16_t thread = 0;
  bool atomic = false;
};

// What was done to each of the bytes of a cell. Reads that are not ordered among themselves are all kept, the latest apart.
struct Cell {
  Access write, read;
  std::vector<Access> reads;
};

// What was done to memory: for each kPageBytes that were touched a page of cells, as wide as every access so far allows.
class Shadow {
 public:
  // body(cell, first byte, bytes) for each cell of the `size` bytes at `address`
  template <typename Body>
  void each_cell(const char* address, size_t size, const Body& body) {
    const auto begin = reinterpret_cast<uintptr_t>(address), end = begin + size;
    const size_t width = std::min(kWidest, size_t{1} << std::countr_zero(begin | size));
    for (uintptr_t at = begin; at < end;) {
      Page& page = page_at(at, width);
      if (page.width > width) narrow(page, width);
      for (const uintptr_t last = std::min(end, (at / kPageBytes + 1) * kPageBytes); at < last; at += page.width)
        body(page.cells[at % kPageBytes / page.width], address + (at - begin), page.width);
    }
  }

  bool was_written(const char* byte) {
    const Page& page = page_at(reinterpret_cast<uintptr_t>(byte), 1);
    return page.cells[reinterpret_cast<uintptr_t>(byte) % kPageBytes / page.width].write.clock != 0;
  }

 private:
  static constexpr size_t kPageBytes = 256, kWidest = 16;
  struct Page {
    size_t width = 0;  // bytes of a cell, a power of two
    std::vector<Cell> cells;
  };

  Page& page_at(uintptr_t address, size_t width) {
    const uintptr_t number = address / kPageBytes;
    if (last_ == nullptr || number != last_number_) {
      last_ = &pages_[number];
      last_number_ = number;
      if (last_->cells.empty()) *last_ = {width, std::vector<Cell>(kPageBytes / width)};
    }
    return *last_;
  }

  static void narrow(Page& page, size_t width) {
    Page finer{width, {}};
    finer.cells.reserve(kPageBytes / width);
    for (const Cell& cell : page.cells) finer.cells.insert(finer.cells.end(), page.width / width, cell);
    page = std::move(finer);
  }

  std::unordered_map<uintptr_t, Page> pages_;
  uintptr_t last_number_ = 0;
  Page* last_ = nullptr;  // of the access before
};

struct Launch {
  std::map<uint64_t, BlockClocks> blocks;  // resident ones
  std::map<uint64_t, Shadow> shared;       // of the resident ones
  Shadow global;
  std::map<std::pair<uint64_t, const void*>, View> synchronised;  // by address; shared memory also by block
} state;

BlockClocks& clocks_of(const Block& block) { return state.blocks.at(block.number); }

bool sees(const Thread& thread, const BlockClocks& own, const Access& access) {
  const ThreadClocks& clocks = own.threads[thread.rank];
  if (access.block == thread.block->number) {
    if (access.thread == thread.rank || own.base[access.thread] >= access.clock) return true;
    if (access.thread / kWarpSize == thread.rank / kWarpSize && clocks.warp[access.thread % kWarpSize] >= access.clock)
      return true;
  }
  const auto known = clocks.view.find(access.block);
  return known != clocks.view.end() && (*known->second)[access.thread] >= access.clock;
}

// Everything that the thread sees, itself included.
View view_of(const Thread& thread, const BlockClocks& own) {
  const ThreadClocks& clocks = own.threads[thread.rank];
  auto seen = std::make_shared<Clocks>(own.base);
  for (unsigned lane = 0; lane < kWarpSize; lane++) {
    const unsigned rank = thread.warp->number * kWarpSize + lane;
    if (rank < seen->size()) (*seen)[rank] = std::max((*seen)[rank], clocks.warp[lane]);
  }
  (*seen)[thread.rank] = clocks.now;
  View view = clocks.view;
  join(view, {{thread.block->number, seen}});
  return view;
}

std::string who(const Access& access) {
  return "thread " + std::to_string(access.thread) + " of block " + std::to_string(access.block);
}

[[noreturn]] void report(const void* address, const Access& now, bool write, const Access& before, bool wrote) {
  const auto verb = [](bool writes, bool atomic) {
    return std::string(atomic ? "an atomic " : "a ") + (writes ? "write" : "read");
  };
  std::string what = "race in " + std::string(holder_of(address) != nullptr ? "shared" : "global") +
                     " memory: " + verb(write, now.atomic) + " by " + who(now) + " and " + verb(wrote, before.atomic) +
                     " by " + who(before) + ", and nothing orders them";
  fault_with(what, {std::string(write ? "write" : "read") + " at " + place_of(now.pc),
                    std::string(wrote ? "write" : "read") + " at " + place_of(before.pc)});
}

void check_bounds(const SharedMemory& shared, const void* address, size_t size) {
  const size_t begin = shared.offset(address), end = begin + size;
  if (begin < shared.dynamic_begin + kDynamicBytes && end > shared.dynamic_end && begin >= shared.dynamic_begin)
    fault("out of bounds: byte " + std::to_string(end - 1 - shared.dynamic_begin) + " of " +
          std::to_string(shared.dynamic_end - shared.dynamic_begin) + " bytes of dynamic shared memory");
}

void keep_read(Cell& cell, const Access& now, const Thread& thread, const BlockClocks& own) {
  const Access before = cell.read;
  cell.read = now;
  if (before.clock == 0 || (before.thread == now.thread && before.block == now.block && before.atomic == now.atomic))
    return;
  // A read that this one comes after need not be kept: who comes after this one comes after both.
  const size_t size = cell.reads.size();
  if (size >= 8 && (size & (size - 1)) == 0)
    std::erase_if(cell.reads, [&](const Access& read) { return sees(thread, own, read); });
  if (!sees(thread, own, before)) cell.reads.push_back(before);
}

// g++ does not tell of a structure that a call returns into memory: what is no garbage, somebody has written.
bool is_untouched(Shadow& shadow, const char* byte) {
  const char* const word = byte - reinterpret_cast<uintptr_t>(byte) % 4;
  for (int i = 0; i < 4; i++)
    if (!shadow.was_written(word + i) && !is_garbage(word + i)) return false;
  return true;
}

void check(const void* address, size_t size, bool write, bool atomic, uintptr_t pc) {
  Thread& thread = *current;
  Block* const shared = holder_of(address);
  if (shared) check_bounds(shared->shared, address, size);
  Shadow& shadow = shared ? state.shared[shared->number] : state.global;
  const BlockClocks& own = clocks_of(*thread.block);
  const Access now{uint32_t(thread.block->number), own.threads[thread.rank].now, uint32_t(pc), uint16_t(thread.rank),
                   atomic};
  shadow.each_cell(static_cast<const char*>(address), size, [&](Cell& cell, const char* at, size_t width) {
    if (cell.write.clock != 0 && !(atomic && cell.write.atomic) && !sees(thread, own, cell.write))
      report(at, now, write, cell.write, true);
    if (write) {
      const auto check_read = [&](const Access& read) {
        if (read.clock != 0 && !(atomic && read.atomic) && !sees(thread, own, read)) report(at, now, true, read, false);
      };
      check_read(cell.read);
      for (const Access& read : cell.reads) check_read(read);
      cell = Cell{now, {}, {}};
    } else {
      for (size_t i = 0; shared && cell.write.clock == 0 && i < width; i += 4)
        if (is_untouched(shadow, at + i)) fault("reads shared memory that nobody has written");
      keep_read(cell, now, thread, own);
    }
  });
}

View& synchronised_at(const void* address) {
  const Block* const shared = holder_of(address);
  return state.synchronised[{shared ? shared->number : UINT64_MAX, address}];
}

class RaceDetector : public Observer {
 public:
  void begin_launch() override { state = Launch{}; }

  void begin_block(Block& block) override {
    BlockClocks& clocks = state.blocks[block.number];
    clocks.threads.resize(block.size);
    clocks.base.assign(block.size, 0);
  }

  void end_block(Block& block) override {
    state.blocks.erase(block.number);
    state.shared.erase(block.number);
  }

  void barrier(const std::vector<Thread*>& members, const Place&) override {
    const Block& block = *members[0]->block;
    BlockClocks& own = clocks_of(block);
    View joined;
    if (members.size() == block.size) {
      for (const Thread* member : members) join(joined, own.threads[member->rank].view);
      for (const Thread* member : members) own.base[member->rank] = own.threads[member->rank].now;
    } else {
      for (const Thread* member : members) join(joined, view_of(*member, own));
    }
    for (const Thread* member : members) {
      own.threads[member->rank].view = joined;
      own.threads[member->rank].now++;
    }
  }

  void warp_barrier(Block& block, unsigned warp, unsigned lanes) override {
    BlockClocks& own = clocks_of(block);
    std::array<Clock, kWarpSize> seen{};
    View joined;
    const auto each_lane = [&](auto body) {
      for (unsigned lane = 0; lane < kWarpSize; lane++)
        if (lanes >> lane & 1) body(lane, own.threads[warp * kWarpSize + lane]);
    };
    each_lane([&](unsigned lane, ThreadClocks& thread) {
      for (unsigned i = 0; i < kWarpSize; i++) seen[i] = std::max(seen[i], thread.warp[i]);
      seen[lane] = std::max(seen[lane], thread.now);
      join(joined, thread.view);
    });
    each_lane([&](unsigned, ThreadClocks& thread) {
      thread.warp = seen;
      thread.view = joined;
      thread.now++;
    });
  }

  void fence() override {
    BlockClocks& own = clocks_of(*current->block);
    ThreadClocks& thread = own.threads[current->rank];
    join(thread.view, thread.acquired);
    thread.acquired.clear();
    thread.released = view_of(*current, own);
    thread.now++;
  }

  void relaxed(const void* address, size_t size, Relaxed kind, uintptr_t pc) override {
    check(address, size, kind != Relaxed::load, true, pc);
    ThreadClocks& thread = clocks_of(*current->block).threads[current->rank];
    View& handed = synchronised_at(address);
    if (kind != Relaxed::store) join(thread.acquired, handed);
    if (kind == Relaxed::store) handed = thread.released;
    else if (kind == Relaxed::update) join(handed, thread.released);
  }

  void release_to(const void* object) override {
    BlockClocks& own = clocks_of(*current->block);
    join(synchronised_at(object), view_of(*current, own));
    own.threads[current->rank].now++;
  }

  void acquire_from(const void* object) override {
    join(clocks_of(*current->block).threads[current->rank].view, synchronised_at(object));
  }

  void access(const void* address, size_t size, bool write, uintptr_t pc) override {
    if (current == nullptr || on_a_stack(address)) return;
    check(address, size, write, false, pc);
  }

  void access_later(const void* address, size_t size, bool write, uintptr_t pc) override {
    access(address, size, write, pc);
  }
};

}  // namespace

Observer& race_detector() {
  static RaceDetector detector;
  return detector;
}

}  // namespace emulator
