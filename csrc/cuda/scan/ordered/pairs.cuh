// Two neighbouring lines as one line of pairs: one load, one store and one address for both. The bits are those of
// either line alone.
#pragma once
#include "plan.cuh"

namespace torch_reductions::cuda::scan {

// Do all elements and results lie in whole pairs, and is there a kernel for them? Floats make pairs where two lines are
// all there is.
template <class T>
bool are_pairs(const ScanArgs& args) {
  if (sizeof(T) == 4 && (args.inner != 2 || (args.length_stride != 2 && args.length > 1))) return false;
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % sizeof(Pair<T>) == 0; };
  const auto even = [](int64_t size, int64_t stride) { return size <= 1 || stride % 2 == 0; };
  return args.inner % 2 == 0 && args.inner_stride == 1 && even(args.outer, args.outer_stride) &&
         even(args.length, args.length_stride) && aligned(args.input) && aligned(args.output) &&
         reinterpret_cast<uintptr_t>(args.before) % sizeof(Pair<float>) == 0 && args.mask.data == nullptr;
}

// false: they cannot be scanned in pairs, and nothing was launched.
template <class T, template <class> class Op>
bool scan_pairs(const ScanArgs& args, Context& context) {
  if (!are_pairs<T>(args)) return false;
  ScanArgs pairs = args;
  pairs.inner /= 2, pairs.outer_stride /= 2, pairs.length_stride /= 2;
  ScanPlan<Pair<T>, Op<Pair<Accumulator<T>>>>(pairs, context).run();
  return true;
}

template <template <class> class Op>
bool scan_pairs_of(const ScanArgs& args, Context& context) {
  switch (args.dtype) {
    case Dtype::float16: return scan_pairs<Half, Op>(args, context);
    case Dtype::bfloat16: return scan_pairs<BFloat16, Op>(args, context);
    case Dtype::float32: return scan_pairs<float, Op>(args, context);
    default: return false;
  }
}

}  // namespace torch_reductions::cuda::scan
