// The GPU's launchers of the scan ladder.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::scan {

// threads: of a block; 0 for as many as suit the row. most: of blocks; 0 for one per part.
void scan_then_fan(const ScanArgs& args, Context& context, int threads, int most);
void reduce_then_scan(const ScanArgs& args, Context& context, int threads, int most);
void two_level(const ScanArgs& args, Context& context, int threads);
void two_level_zero_padded(const ScanArgs& args, Context& context, int threads);
void look_back(const ScanArgs& args, Context& context, int threads);

void cub_scan(const ScanArgs& args, Context& context);
void ordered(const ScanArgs& args, Context& context);

}  // namespace torch_reductions::cuda::scan

namespace torch_reductions::cuda::ladder {

// Runs the rung of that number, 0 for auto. False where the GPU has none.
bool scan(int64_t variant, const ScanArgs& args, Context& context);

}  // namespace torch_reductions::cuda::ladder
