// The CPU's launchers of the ladder of sums of two tensors.
#pragma once
#include <cstdint>

#include "../../common/args.h"
#include "../threads.h"

namespace torch_reductions::cpu::add {

void sequential(const AddArgs& args, const Threads& threads);
void vectorized(const AddArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::add

namespace torch_reductions::cpu::ladder {

// Runs the rung of that number, 0 for auto. False where the CPU has none.
bool add(int64_t variant, const AddArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::ladder
