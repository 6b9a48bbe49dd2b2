// The CPU's launchers of the scan ladder.
#pragma once
#include <cstdint>

#include "../../common/args.h"
#include "../threads.h"

namespace torch_reductions::cpu::scan {

void sequential(const ScanArgs& args, const Threads& threads);
void threaded(const ScanArgs& args, const Threads& threads);
void ordered(const ScanArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::scan

namespace torch_reductions::cpu::ladder {

// Runs the rung of that number, 0 for auto. False where the CPU has none.
bool scan(int64_t variant, const ScanArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::ladder
