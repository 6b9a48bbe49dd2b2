// The files that instantiate the kernels of `ordered`, one operator each.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::scan {

void scan_sum(const ScanArgs& args, Context& context);
void scan_prod(const ScanArgs& args, Context& context);
void scan_log_add(const ScanArgs& args, Context& context);
void scan_extreme(const ScanArgs& args, Context& context);
void scan_extreme_halves(const ScanArgs& args, Context& context);

// Of two neighbouring lines at a time (ordered/pairs.cuh). false: there are no such lines, and nothing was launched.
bool scan_pairs_sum(const ScanArgs& args, Context& context);
bool scan_pairs_prod(const ScanArgs& args, Context& context);

// Of packed segments.
void scan_packed_sum(const ScanArgs& args, Context& context);
void scan_packed_prod(const ScanArgs& args, Context& context);
void scan_packed_log_add(const ScanArgs& args, Context& context);
void scan_packed_extreme(const ScanArgs& args, Context& context);

}  // namespace torch_reductions::cuda::scan
