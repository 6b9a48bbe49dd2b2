// The order of operations of a rung of matrix products, executed literally.
#pragma once
#include "../../../../csrc/common/args.h"

namespace emulator {

// Fills the output. False where the order of that rung stands nowhere here.
bool execute_order(int rung, int capability, const torch_reductions::MatmulArgs& args);

}  // namespace emulator
