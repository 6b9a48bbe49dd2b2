// What a scan that goes on from another one takes and gives besides its elements: one value for each line.
#pragma once
#include "check.h"
#include "tensor.h"

namespace torch_reductions {
namespace {

// What sums, products and steps of this type are accumulated in.
constexpr Dtype accumulator_of(Dtype dtype) {
  if (dtype > Dtype::float64) return Dtype::int64;
  return dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
}

// Fails unless the tensor has one value of that type for each line of the input; made contiguous.
inline Tensor check_before(const char* function, const char* name, const Tensor& before, const Tensor& input,
                           int64_t dim, Dtype dtype) {
  const auto wanted = scalar_type_of(dtype);
  TR_CHECK(before.scalar_type() == wanted, function, "(): ", name, " must be ", torch::headeronly::toString(wanted),
           ", but it is ", torch::headeronly::toString(before.scalar_type()));
  TR_CHECK(on_same_device(before, input), function, "(): ", name, " and input must be on the same device");
  const Dims shape = shape_without(input, dim);
  const auto sizes = sizes_of(before);
  TR_CHECK(std::equal(sizes.begin(), sizes.end(), shape.sizes, shape.sizes + shape.count), function, "(): ", name,
           " must have the shape of input without dim ", dim);
  return made_contiguous(before);
}

// Memory for the total of each line, or an empty tensor where the line is no block of 2^k elements, or nobody asks.
inline Tensor totals_for(const Tensor& input, int64_t dim, int64_t length, bool wanted, Dtype dtype) {
  Dims shape;
  if (wanted && is_power_of_two(length)) shape = shape_without(input, dim);
  else shape.push(0);
  return empty(shape, dtype, input);
}
inline void* data_of(const Tensor& totals) { return totals.numel() > 0 ? totals.mutable_data_ptr() : nullptr; }

}  // namespace
}  // namespace torch_reductions
