// The CPU's launchers of the reduce ladder.
#pragma once
#include <cstdint>
#include <functional>

#include "../../common/args.h"

namespace torch_reductions::cpu {

// torch's own threads, handed in by ops/: a pool of one's own would fight with libgomp's. body(begin, end) must not
// throw. Nothing runs in parallel where count is 1.
struct Threads {
  int count;
  void (*parallel_for)(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body);
};

void sequential(const ReduceArgs& args, const Threads& threads);
void threaded(const ReduceArgs& args, const Threads& threads);
void ordered(const ReduceArgs& args, const Threads& threads);

// Which compilation of `ordered` runs: "baseline", "avx2" or "avx512". TORCH_REDUCTIONS_CPU limits the choice.
const char* cpu_capability();

// Runs the rung of that number, 0 for auto. False where the CPU has none.
bool reduce(int64_t variant, const ReduceArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu
