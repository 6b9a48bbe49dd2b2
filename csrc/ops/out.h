// Results that go into the caller's tensors, those of out=.
#pragma once
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tensor.h"

namespace torch_reductions {
namespace {

// The addresses from a tensor's first byte to behind its last; strides are not negative.
inline std::pair<uintptr_t, uintptr_t> bytes_of(const Tensor& tensor) {
  const auto sizes = sizes_of(tensor), strides = strides_of(tensor);
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); i++) last += (sizes[i] - 1) * strides[i];
  return {begin, begin + (tensor.numel() == 0 ? 0 : uintptr_t(last + 1) * tensor.element_size())};
}

// Whether they may share an element.
inline bool overlap(const Tensor& a, const Tensor& b) {
  const auto [a_begin, a_end] = bytes_of(a);
  const auto [b_begin, b_end] = bytes_of(b);
  return std::max(a_begin, b_begin) < std::min(a_end, b_end);
}

// Whether a kernel can write into it as into a new tensor of this type.
inline bool looks_new(const Tensor& out, Dtype dtype) {
  return out.scalar_type() == scalar_type_of(dtype) && out.is_contiguous();
}

// Fails unless `out` has the device of the input and the type and shape of the result. Python has resized it by then.
inline void check_out(const char* function, const char* name, const Tensor& out, const Tensor& input, Dtype dtype,
                      const Dims& shape) {
  TR_CHECK(on_same_device(out, input), function, "(): ", name, " and input must be on the same device");
  const auto wanted = scalar_type_of(dtype);
  TR_CHECK(out.scalar_type() == wanted, function, "(): Expected ", name, " tensor to have dtype ",
           torch::headeronly::toString(wanted), ", but got ", torch::headeronly::toString(out.scalar_type()),
           " instead");
  const auto sizes = sizes_of(out), strides = strides_of(out);
  TR_CHECK(std::equal(sizes.begin(), sizes.end(), shape.sizes, shape.sizes + shape.count), function,
           "(): the shape of out is not that of the result");
  for (size_t i = 0; i < sizes.size(); i++)
    TR_CHECK(sizes[i] < 2 || strides[i] != 0, function,
             "(): unsupported operation: more than one element of the written-to tensor refers to a single memory "
             "location. Please clone() the tensor before performing the operation.");
}

// Copies results into `out`, unless a kernel has written them there.
inline void deliver(Tensor out, const Tensor& results) {
  if (results.get() != out.get()) torch::stable::copy_(out, results);
}

}  // namespace
}  // namespace torch_reductions
