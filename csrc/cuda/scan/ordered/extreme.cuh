// cummax and cummin of a type, with the indices.
#pragma once
#include "../instances.h"
#include "plan.cuh"

namespace torch_reductions::cuda::scan {

template <class T>
void scan_extreme_of(const ScanArgs& args, Context& context) {
  if (args.length <= INT32_MAX) ScanPlan<T, LastMax<Native<T>, int32_t>>(args, context).run();
  else ScanPlan<T, LastMax<Native<T>, int64_t>>(args, context).run();
}

}  // namespace torch_reductions::cuda::scan
