// The CPU's launchers of the reduce ladder.
#pragma once
#include <cstdint>

#include "../../common/args.h"
#include "../threads.h"

namespace torch_reductions::cpu::reduce {

void sequential(const ReduceArgs& args, const Threads& threads);
void threaded(const ReduceArgs& args, const Threads& threads);
void ordered(const ReduceArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::reduce

namespace torch_reductions::cpu::ladder {

// Runs the rung of that number, 0 for auto. False where the CPU has none.
bool reduce(int64_t variant, const ReduceArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::ladder
