// Shared by the CPU's rungs: one segment as a call of the reductions, and the result of an empty one.
#pragma once
#include <limits>

#include "../reduce/output.h"

namespace torch_reductions::cpu::segment {

// Segment s of the lines of outer index o: its results are contiguous.
inline ReduceArgs segment_of(const SegmentArgs& args, int64_t o, int64_t s) {
  const int64_t begin = args.segments.begin(s), first = o * args.outer_stride + begin * args.length_stride;
  return {.function = fold_of(args.function),
          .input_dtype = args.input_dtype,
          .output_dtype = args.output_dtype,
          .input = static_cast<const char*>(args.input) + first * size_of(args.input_dtype),
          .output =
              static_cast<char*>(args.output) + (o * args.segments.count + s) * args.inner * size_of(args.output_dtype),
          .outer = 1,
          .length = args.segments.end(s) - begin,
          .inner = args.inner,
          .outer_stride = 0,
          .length_stride = args.length_stride,
          .inner_stride = args.inner_stride};
}

// The results of an empty segment: 0 for a sum, 1 for a product, NaN for a mean, and for an extreme the value that
// every element of the type replaces.
inline void write_empty(const ReduceArgs& segment) {
  with_storage(segment.input_dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    reduce::with_operator<S>(segment.function, [&](auto op) {
      using Value = typename decltype(op)::type::Value;
      if constexpr (std::is_arithmetic_v<Value>) {
        using A = std::conditional_t<std::is_integral_v<S>, S, Accumulator<S>>;
        const Value value = segment.function == Function::amax   ? Value(kLeast<A>)
                            : segment.function == Function::amin ? Value(kMost<A>)
                                                                 : Value(segment.function == Function::prod);
        ReduceArgs one = segment;
        if (segment.function >= Function::amax) one.length = 1;  // as if there were one element, of that value
        for (int64_t i = 0; i < segment.inner; i++) reduce::write(one, i, 1, &value);
      }
    });
  });
}

}  // namespace torch_reductions::cpu::segment
