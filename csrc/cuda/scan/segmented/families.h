// The files that instantiate the kernel for packed segments, one operator each.
#pragma once
#include "../../../common/args.h"
#include "../../primitives/launch.h"

namespace torch_reductions::cuda::scan {

void scan_packed_sum(const ScanArgs& args, Context& context);
void scan_packed_prod(const ScanArgs& args, Context& context);
void scan_packed_log_add(const ScanArgs& args, Context& context);
void scan_packed_extreme(const ScanArgs& args, Context& context);

}  // namespace torch_reductions::cuda::scan
