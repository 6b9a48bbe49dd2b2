// Accesses are grouped to requests: what the lanes of a warp do at one instruction, at its same execution since the last
// barrier. A group is what one load or store of a warp is on a GPU, and its addresses say what that costs:
//   global memory    sectors, of 32 bytes, that hold a byte of it
//   shared memory    wavefronts: the most words of 4 bytes that lie in one of the 32 banks
//   constant memory  addresses
// A branch is divergent where lanes that were in one basic block go on in several ones.
#include "counts.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fiber.h"
#include "observer.h"

extern "C" {
extern char __executable_start, __data_start;
extern void* __libc_stack_end;
// Of the section that cuda_on_cpu.h puts __constant__ variables into; null where no program has one.
__attribute__((weak)) extern char __start_constant_memory, __stop_constant_memory;
}

namespace emulator {
namespace {

enum Kind { global_load, global_store, global_atomic, shared_load, shared_store, shared_atomic, constant_load };
constexpr const char* kKinds[] = {"global load",  "global store",  "global atomic", "shared load",
                                  "shared store", "shared atomic", "constant load"};

struct Part {
  uintptr_t address;
  size_t size;
  unsigned lane;
};

uint64_t distinct(const std::vector<Part>& parts, size_t granule) {
  std::set<uintptr_t> found;
  for (const Part& part : parts)
    for (uintptr_t i = part.address / granule; i <= (part.address + part.size - 1) / granule; i++) found.insert(i);
  return found.size();
}

// Bytes that several lanes ask for are one byte.
uint64_t bytes_of(std::vector<Part> parts) {
  std::ranges::sort(parts, {}, &Part::address);
  uint64_t bytes = 0;
  uintptr_t end = 0;
  for (const Part& part : parts) {
    const uintptr_t begin = std::max(part.address, end);
    end = std::max(end, part.address + part.size);
    bytes += end > begin ? end - begin : 0;
  }
  return bytes;
}

// Accesses of 16 bytes are served for a half of the warp at a time: measured, docs/emulator.md.
uint64_t wavefronts(const std::vector<Part>& parts) {
  std::map<unsigned, std::array<std::set<uintptr_t>, 32>> groups;
  for (const Part& part : parts)
    for (uintptr_t word = part.address / 4; word <= (part.address + part.size - 1) / 4; word++)
      groups[part.size > 8 ? part.lane / 16 : 0][word % 32].insert(word);
  uint64_t sum = 0;
  for (const auto& [_, banks] : groups) sum += std::ranges::max(banks, {}, &std::set<uintptr_t>::size).size();
  return sum;
}

uint64_t cost_of(Kind kind, const std::vector<Part>& parts) {
  if (kind <= global_atomic) return distinct(parts, 32);
  if (kind <= shared_atomic) return wavefronts(parts);
  std::set<uintptr_t> addresses;
  for (const Part& part : parts) addresses.insert(part.address);
  return addresses.size();
}

// Something that a thread did: in which stretch between barriers of its block or warp, where, and how often before in
// this stretch.
struct Key {
  unsigned warp, stretch;
  uintptr_t pc;
  unsigned time;
  bool operator==(const Key&) const = default;
};
struct Hash {
  size_t operator()(const Key& key) const {
    size_t hash = key.pc;
    for (const size_t value : {key.warp, key.stretch, key.time}) hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 29;
  }
};

struct Request {
  Kind kind;
  unsigned step;
  std::vector<Part> parts;
};

// Where lanes went from a basic block.
struct Branch {
  uintptr_t place = 0;  // of the last comparison before it
  uintptr_t first = 0;
  bool divergent = false;
};

struct ThreadLog {
  unsigned step = 0, stretch = 0;  // barriers of the block, and those of the warp too
  std::unordered_map<uintptr_t, unsigned> times, visits;
  Key block{};  // the basic block that it is in
  bool inside = false;
  uintptr_t compared = 0;  // the last comparison in it

  void next_stretch() {
    stretch++;
    times.clear();
    visits.clear();
  }
};

struct BlockLog {
  std::vector<ThreadLog> threads;
  std::unordered_map<Key, Request, Hash> requests;
  std::unordered_map<Key, Branch, Hash> branches;
};

struct Sum {
  uint64_t requests = 0, lanes = 0, cost = 0, bytes = 0;
};

struct Step {
  std::set<unsigned> warps;  // that touch memory
  std::map<Kind, Sum> sums;
};

// What was counted of a kernel.
struct Counts {
  std::vector<Launch> launches;
  std::map<std::pair<Kind, uintptr_t>, Sum> accesses;
  std::map<std::pair<std::string, std::string>, std::pair<uint64_t, uint64_t>> together;  // kind, place: times, warps
  std::map<uintptr_t, std::set<uintptr_t>> followers;                                     // of basic blocks
  // By a basic block and the place of the branch at its end: executed by a warp, divergent.
  std::map<std::pair<uintptr_t, uintptr_t>, std::pair<uint64_t, uint64_t>> branches;
  std::vector<Step> steps;  // of block 0 of the first launch
};

// The emulator's own: a kernel reads threadIdx, blockIdx and its parameters there.
bool is_machinery(uintptr_t a) {
  const auto in = [a](const void* begin, size_t bytes) { return a - reinterpret_cast<uintptr_t>(begin) < bytes; };
  const Block& block = *current->block;
  const uintptr_t host_stack = reinterpret_cast<uintptr_t>(current_grid);
  return in(block.threads.data(), block.threads.size() * sizeof(Thread)) || in(&block, sizeof block) ||
         (a >= host_stack && a < reinterpret_cast<uintptr_t>(__libc_stack_end)) ||
         in(&__executable_start, size_t(&__data_start - &__executable_start));  // constants of the compiler
}

bool is_constant(uintptr_t a) {
  return &__start_constant_memory != nullptr && a >= reinterpret_cast<uintptr_t>(&__start_constant_memory) &&
         a < reinterpret_cast<uintptr_t>(&__stop_constant_memory);
}

class Counter : public Observer {
 public:
  void begin_launch() override {
    const void* const kernel = current_grid->kernel;
    const auto same = [&](const auto& one) { return one.first == kernel; };
    auto found = std::ranges::find_if(kernels, same);
    if (found == kernels.end()) found = kernels.insert(found, {kernel, {}});
    counts_ = &found->second;
    counts_->launches.push_back(current_grid->launch);
    logs_.clear();
  }

  void begin_block(Block& block) override { logs_[block.number].threads.resize(block.size); }

  void end_block(Block& block) override {
    BlockLog& log = logs_.at(block.number);
    const bool shown = block.number == 0 && counts_->launches.size() == 1;
    for (const auto& [key, request] : log.requests) {
      const uint64_t cost = cost_of(request.kind, request.parts), bytes = bytes_of(request.parts);
      const auto add = [&](Sum& sum) {
        sum.requests++, sum.lanes += request.parts.size(), sum.cost += cost, sum.bytes += bytes;
      };
      add(counts_->accesses[{request.kind, key.pc}]);
      if (!shown) continue;
      if (counts_->steps.size() <= request.step) counts_->steps.resize(request.step + 1);
      counts_->steps[request.step].warps.insert(key.warp);
      add(counts_->steps[request.step].sums[request.kind]);
    }
    for (const auto& [key, branch] : log.branches) {
      auto& [executed, divergent] = counts_->branches[{key.pc, branch.place}];
      executed++, divergent += branch.divergent;
    }
    logs_.erase(block.number);
  }

  void barrier(const std::vector<Thread*>& members, const Place& place) override {
    BlockLog& log = logs_.at(members[0]->block->number);
    std::set<unsigned> warps;
    for (const Thread* member : members) {
      log.threads[member->rank].next_stretch();
      log.threads[member->rank].step++;
      warps.insert(member->warp->number);
    }
    add_together("barrier", place, warps.size());
  }

  void warp_barrier(Block& block, unsigned warp, unsigned lanes) override {
    BlockLog& log = logs_.at(block.number);
    for (unsigned lane = 0; lane < kWarpSize; lane++)
      if (lanes >> lane & 1) log.threads[warp * kWarpSize + lane].next_stretch();
  }

  void warp_operation(const char* kind, const Warp&, const Place& place) override { add_together(kind, place, 1); }

  void relaxed(const void* address, size_t size, Relaxed kind, uintptr_t pc) override {
    if (kind == Relaxed::update) add(address, size, 2, pc);
    else add(address, size, kind == Relaxed::store, pc);
  }
  void mbarrier(const void*, uintptr_t) override {}

  void access(const void* address, size_t size, bool write, uintptr_t pc) override { add(address, size, write, pc); }

  void compares(uintptr_t pc) override { own().compared = pc; }

  void reaches(uintptr_t pc) override {
    ThreadLog& log = own();
    if (log.inside) {
      Branch& branch = logs_.at(current->block->number).branches[log.block];
      if (branch.first == 0) branch.first = pc, branch.place = log.compared != 0 ? log.compared : log.block.pc;
      branch.divergent |= branch.first != pc;
      counts_->followers[log.block.pc].insert(pc);
    }
    log.block = {current->warp->number, log.stretch, pc, log.visits[pc]++};
    log.inside = true;
    log.compared = 0;
  }

  std::deque<std::pair<const void*, Counts>> kernels;  // in the order of their first launches

 private:
  ThreadLog& own() { return logs_.at(current->block->number).threads[current->rank]; }

  void add_together(const char* kind, const Place& place, uint64_t warps) {
    auto& [times, all] = counts_->together[{kind, text_of(place)}];
    times++, all += warps;
  }

  // how: 0 a load, 1 a store, 2 an atomic operation
  void add(const void* address, size_t size, int how, uintptr_t pc) {
    if (current == nullptr || on_a_stack(address)) return;
    uintptr_t at = reinterpret_cast<uintptr_t>(address);
    Kind kind = Kind(global_load + how);
    if (const Block* const holder = holder_of(address)) {
      kind = Kind(shared_load + how);
      at = holder->shared.offset(address);
    } else if (is_constant(at)) {
      kind = constant_load;
    } else if (is_machinery(at)) {
      return;
    }
    ThreadLog& log = own();
    const Key key{current->warp->number, log.stretch, pc, log.times[pc]++};
    Request& request = logs_.at(current->block->number).requests[key];
    request.kind = kind, request.step = log.step;
    request.parts.push_back({at, size, current->lane});
  }

  Counts* counts_ = nullptr;
  std::map<uint64_t, BlockLog> logs_;
} counter;

void print_sums(std::FILE* file, const Sum& sum) {
  std::fprintf(file, "%lu %lu %lu %lu\n", sum.requests, sum.lanes, sum.cost, sum.bytes);
}

}  // namespace

void start_counting() {
  if (!is_instrumented) fault("only a program whose kernels are instrumented can count");
  observer = &counter;
}

void print_counts(std::FILE* file) {
  for (const auto& [kernel, counts] : counter.kernels) {
    std::fprintf(file, "kernel %p\n", kernel);
    for (const Launch& launch : counts.launches)
      std::fprintf(file, "launch %u %u %u %u %u %u %zu\n", launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x,
                   launch.block.y, launch.block.z, launch.shared_bytes);
    for (const auto& [key, sum] : counts.accesses) {
      std::fprintf(file, "access %#lx %s: ", key.second, kKinds[key.first]);
      print_sums(file, sum);
    }
    for (const auto& [key, times] : counts.together)
      std::fprintf(file, "together %s %s: %lu %lu\n", key.second.c_str(), key.first.c_str(), times.first, times.second);
    for (const auto& [key, times] : counts.branches)
      if (counts.followers.at(key.first).size() > 1)
        std::fprintf(file, "branch %#lx %lu %lu\n", key.second, times.first, times.second);
    for (size_t i = 0; i < counts.steps.size(); i++)
      for (const auto& [kind, sum] : counts.steps[i].sums) {
        std::fprintf(file, "step %zu %zu %s: ", i, counts.steps[i].warps.size(), kKinds[kind]);
        print_sums(file, sum);
      }
  }
}

}  // namespace emulator
