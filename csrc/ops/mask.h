// The mask argument of an operator.
#pragma once
#include <torch/headeronly/core/ScalarType.h>

#include "../common/mask.h"
#include "tensor.h"

namespace torch_reductions {
namespace {

// The mask, broadcast to the input's shape by strides of 0.
inline Tensor check_mask(const char* function, const Tensor& mask, const Tensor& input) {
  TR_CHECK(mask.scalar_type() == torch::headeronly::ScalarType::Bool, function, "(): mask must be bool, but it is ",
           torch::headeronly::toString(mask.scalar_type()));
  TR_CHECK(on_same_device(mask, input), function, "(): mask and input must be on the same device");
  const auto sizes = sizes_of(input), given = sizes_of(mask), strides = strides_of(mask);
  const size_t missing = sizes.size() - given.size();
  bool fits = given.size() <= sizes.size();
  Dims shape;
  for (size_t i = 0; fits && i < sizes.size(); i++) {
    const bool expands = i < missing || given[i - missing] == 1;
    fits = expands || given[i - missing] == sizes[i];
    shape.push(sizes[i], expands ? 0 : strides[i - missing]);
  }
  TR_CHECK(fits, function, "(): mask cannot be broadcast to the shape of input");
  AtenTensorHandle handle;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch__reinterpret_tensor(mask.get(), shape.count, shape.sizes, shape.strides, 0, &handle));
  return Tensor(handle);
}

// As [outer, length, inner] around the dim, like the input; made contiguous where it has no such view.
inline Mask mask_around(Tensor& mask, int64_t dim) {
  const View view = view_around(mask, dim);
  return {static_cast<const uint8_t*>(mask.const_data_ptr()),
          {view.outer_stride, view.length_stride, view.inner_stride}};
}

}  // namespace
}  // namespace torch_reductions
