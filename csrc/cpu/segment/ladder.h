// The CPU's launchers of the segment ladder.
#pragma once
#include <cstdint>

#include "../../common/args.h"
#include "../threads.h"

namespace torch_reductions::cpu::segment {

void sequential(const SegmentArgs& args, const Threads& threads);
void ordered(const SegmentArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::segment

namespace torch_reductions::cpu::ladder {

// Runs the rung of that number, 0 for auto. False where the CPU has none.
bool segment(int64_t variant, const SegmentArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::ladder
