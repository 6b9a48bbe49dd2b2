// Results that go where the caller wants them: the tensors of out=.
#pragma once
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "tensor.h"

namespace torch_reductions {
namespace {

// The bytes from a tensor's first element to its last; strides are not negative.
inline std::pair<uintptr_t, uintptr_t> bytes_of(const Tensor& tensor) {
  const auto sizes = sizes_of(tensor), strides = strides_of(tensor);
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); i++) last += (sizes[i] - 1) * strides[i];
  const int64_t elements = tensor.numel() == 0 ? 0 : last + 1;
  return {begin, begin + uintptr_t(elements * tensor.element_size())};
}

// Might an element of one be an element of the other?
inline bool overlap(const Tensor& a, const Tensor& b) {
  const auto [a_begin, a_end] = bytes_of(a);
  const auto [b_begin, b_end] = bytes_of(b);
  return std::max(a_begin, b_begin) < std::min(a_end, b_end);
}

// Where a kernel stores results of this type: in `given`, if it looks as a new tensor of this shape would.
inline Tensor given_or_new(const Tensor& given, Dims& shape, Dtype dtype) {
  const bool fits = given.scalar_type() == scalar_type_of(dtype) && given.is_contiguous();
  return fits ? given : empty(shape, dtype, given);
}

// A tensor of the result's shape, which Python gives it where it has another, and of as many elements as that says.
inline void check_out_shape(const Tensor& out, const Dims& shape, const char* function) {
  const auto sizes = sizes_of(out), strides = strides_of(out);
  TR_CHECK(std::equal(sizes.begin(), sizes.end(), shape.sizes, shape.sizes + shape.count), function,
           "(): the shape of out is not that of the result");
  for (size_t i = 0; i < sizes.size(); i++)
    TR_CHECK(sizes[i] < 2 || strides[i] != 0, function,
             "(): unsupported operation: more than one element of the written-to tensor refers to a single "
             "memory location. Please clone() the tensor before performing the operation.");
}

inline void check_out_dtype(const Tensor& out, torch::headeronly::ScalarType wanted, const char* function,
                            const char* name) {
  TR_CHECK(out.scalar_type() == wanted, function, "(): Expected ", name, " tensor to have dtype ",
           torch::headeronly::toString(wanted), ", but got ", torch::headeronly::toString(out.scalar_type()),
           " instead");
}

inline void check_out_device(const Tensor& out, const Tensor& input, const char* function, const char* name) {
  TR_CHECK(out.is_cuda() == input.is_cuda() && out.get_device_index() == input.get_device_index(), function,
           "(): ", name, " and input must be on the same device");
}

// Results that were computed elsewhere go where they belong.
inline void deliver(Tensor out, const Tensor& made) {
  if (made.get() != out.get()) torch::stable::copy_(out, made);
}

}  // namespace
}  // namespace torch_reductions
