// The CPU's launchers of the ladder of matrix products.
#pragma once
#include <cstdint>

#include "../../common/args.h"
#include "../threads.h"

namespace torch_reductions::cpu::matmul {

void sequential(const MatmulArgs& args, const Threads& threads);
void blocked(const MatmulArgs& args, const Threads& threads);
void hopper_model(const MatmulArgs& args, const Threads& threads);
void ordered(const MatmulArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::matmul

namespace torch_reductions::cpu::ladder {

// Runs the rung of that number, 0 for auto. False where the CPU has none.
bool matmul(int64_t variant, const MatmulArgs& args, const Threads& threads);

}  // namespace torch_reductions::cpu::ladder
