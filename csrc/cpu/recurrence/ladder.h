// The CPU's launchers of the recurrence ladder.
#pragma once
#include <cstdint>

#include "../../common/args.h"
#include "../threads.h"

namespace torch_reductions::cpu::recurrence {

void sequential(const RecurrenceArgs& args, const Threads& threads);
void ordered(const RecurrenceArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::recurrence

namespace torch_reductions::cpu::ladder {

// Runs the rung of that number, 0 for auto. False where the CPU has none.
bool recurrence(int64_t variant, const RecurrenceArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::ladder
