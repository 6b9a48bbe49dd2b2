// The types of sum, prod and mean, over a whole dim or over its segments.
#pragma once
#include <optional>

#include "check.h"
#include "device.h"

namespace torch_reductions {
namespace {

// The type that the input is cast to before the kernel runs, and that of the result.
struct FoldTypes {
  Dtype input, output;
};

// kernel_casts: whether the kernel itself widens half precision and truncates integers.
inline FoldTypes fold_types(Function function, const char* name, Dtype input,
                            const std::optional<torch::headeronly::ScalarType>& requested, bool kernel_casts) {
  const bool mean = function == Function::mean;
  if (!requested) {
    TR_CHECK(!mean || is_float(input), name,
             "(): could not infer output dtype. Input dtype must be either a "
             "floating point or complex dtype. Got: ",
             torch::headeronly::toString(scalar_type_of(input)));
    return {input, is_float(input) ? input : Dtype::int64};
  }
  const Dtype output = dtype_of(name, "dtype", *requested);
  TR_CHECK(!mean || is_float(output), name,
           "(): could not infer output dtype. Optional dtype must be either a "
           "floating point or complex dtype. Got: ",
           torch::headeronly::toString(*requested));
  const bool widens = output == Dtype::float32 && (input == Dtype::float16 || input == Dtype::bfloat16);
  const bool truncates = !is_float(input) && !is_float(output) && output != Dtype::boolean;
  return {kernel_casts && (widens || truncates) ? input : output, output};
}

}  // namespace
}  // namespace torch_reductions
