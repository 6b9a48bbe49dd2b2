// The CPU's launchers of the distance ladder.
#pragma once
#include <cstdint>

#include "../../common/args.h"
#include "../threads.h"

namespace torch_reductions::cpu::distance {

void sequential(const DistanceArgs& args, const Threads& threads);
void ordered(const DistanceArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::distance

namespace torch_reductions::cpu::ladder {

// Runs the rung of that number, 0 for auto. False where the CPU has none.
bool distance(int64_t variant, const DistanceArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::ladder
