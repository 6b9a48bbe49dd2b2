// A tensor seen as [outer, length, inner] with strides, and the operations on tensors that several operators need.
#pragma once
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>

#include "check.h"
#include "huge_pages.h"

namespace torch_reductions {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline std::span<const int64_t> sizes_of(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return {sizes.data(), sizes.size()};
}

inline std::span<const int64_t> strides_of(const Tensor& tensor) {
  const auto strides = tensor.strides();
  return {strides.data(), strides.size()};
}

inline bool on_same_device(const Tensor& a, const Tensor& b) {
  return a.is_cuda() == b.is_cuda() && a.get_device_index() == b.get_device_index();
}

// Sizes and strides of at most 64 dimensions, without an allocation.
struct Dims {
  int64_t sizes[kMaxDims], strides[kMaxDims];
  int count = 0;

  void push(int64_t size, int64_t stride = 0) {
    sizes[count] = size;
    strides[count++] = stride;
  }
  // Leaves out a dimension of size 1, and merges one that continues the dimension before it.
  void merge(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (count > 0 && strides[count - 1] == size * stride) {
      sizes[count - 1] *= size;
      strides[count - 1] = stride;
    } else {
      push(size, stride);
    }
  }
  // The dimension at `from` goes to `to`; those between them move up by one.
  void move(int64_t from, int64_t to) {
    for (int64_t* values : {sizes, strides}) {
      if (from < to) std::rotate(values + from, values + from + 1, values + to + 1);
      else std::rotate(values + to, values + from, values + from + 1);
    }
  }
};

// Like torch.empty_strided for strides without gaps, and without the dispatcher's boxing. A large one on the CPU asks for
// huge pages; a small one spares the questions after its memory.
inline Tensor empty_strided(int dims, const int64_t* sizes, const int64_t* strides, ScalarType type,
                            const Tensor& like) {
  int32_t device_type, device_index;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &device_index));
  const auto code = torch::stable::detail::to<int32_t>(torch::stable::detail::from(type));
  AtenTensorHandle handle;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(dims, sizes, strides, code, device_type, device_index, &handle));
  Tensor tensor(handle);
  const bool maybe_large = std::accumulate(sizes, sizes + dims, uint64_t(8), std::multiplies()) >= kHugePagesFrom;
  if (maybe_large && device_type == aoti_torch_device_type_cpu()) {
    int64_t bytes;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_storage_size(handle, &bytes));
    advise_huge_pages(tensor.mutable_data_ptr(), size_t(bytes));
  }
  return tensor;
}

inline Tensor empty_strided(int dims, const int64_t* sizes, const int64_t* strides, Dtype dtype, const Tensor& like) {
  return empty_strided(dims, sizes, strides, scalar_type_of(dtype), like);
}

// Like torch.empty.
inline Tensor empty(Dims& dims, ScalarType type, const Tensor& like) {
  uint64_t stride = 1;  // may wrap: torch refuses such sizes
  for (int i = dims.count; i-- > 0;) {
    dims.strides[i] = int64_t(stride);
    stride *= dims.sizes[i] > 0 ? dims.sizes[i] : 1;
  }
  return empty_strided(dims.count, dims.sizes, dims.strides, type, like);
}

inline Tensor empty(Dims& dims, Dtype dtype, const Tensor& like) { return empty(dims, scalar_type_of(dtype), like); }

inline Dims dims_of(const Tensor& tensor) {
  const auto sizes = sizes_of(tensor), strides = strides_of(tensor);
  Dims dims;
  for (size_t i = 0; i < sizes.size(); ++i) dims.push(sizes[i], strides[i]);
  return dims;
}

// Whether a copy with elements of that size is large enough for huge pages: torch's own copies do not ask for them.
inline bool takes_huge_pages(const Tensor& tensor, size_t element_size) {
  return !tensor.is_cuda() && uint64_t(tensor.numel()) * element_size >= kHugePagesFrom;
}

inline Tensor contiguous_copy(const Tensor& tensor, ScalarType type) {
  Dims dims = dims_of(tensor);
  Tensor copy = empty(dims, type, tensor);
  torch::stable::copy_(copy, tensor);
  return copy;
}

inline Tensor made_contiguous(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  return takes_huge_pages(tensor, tensor.element_size()) ? contiguous_copy(tensor, tensor.scalar_type())
                                                         : torch::stable::contiguous(tensor);
}

inline Tensor cast(Tensor tensor, Dtype dtype) {
  const ScalarType type = scalar_type_of(dtype);
  if (type == tensor.scalar_type()) return tensor;
  const bool ours = tensor.is_contiguous() && takes_huge_pages(tensor, size_of(dtype));  // torch's keeps any strides
  return ours ? contiguous_copy(tensor, type) : torch::stable::to(tensor, type);
}

// The shape that is left when the dims in `reduced` are removed.
inline Dims reduced_shape(const Tensor& input, const DimSet& reduced, bool keepdim) {
  Dims shape;
  const auto sizes = sizes_of(input);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!reduced[i]) shape.push(sizes[i]);
    else if (keepdim) shape.push(1);
  }
  return shape;
}

// The shape without one dim; a scalar has none.
inline Dims shape_without(const Tensor& tensor, int64_t dim) {
  DimSet removed;
  removed[dim] = true;
  return reduced_shape(tensor, removed, false);
}

struct View {
  int64_t outer = 1, length = 1, inner = 1;
  int64_t outer_stride = 0, length_stride = 1, inner_stride = 1;

  bool is_contiguous_rows() const {
    return inner == 1 && (length == 1 || length_stride == 1) && (outer == 1 || outer_stride == length);
  }
};

// The kept dims and the reduced dims are merged separately, wherever they are: the kept ones give the order of the
// output, the reduced ones the order of the elements. Empty where more than two kept dims or one reduced dim are left.
inline std::optional<View> view_of(const Tensor& input, const DimSet& reduced) {
  const auto sizes = sizes_of(input), strides = strides_of(input);
  Dims kept, folded;
  for (size_t i = 0; i < sizes.size(); ++i) (reduced[i] ? folded : kept).merge(sizes[i], strides[i]);
  if (kept.count > 2 || folded.count > 1) return std::nullopt;

  View view;
  if (folded.count == 1) {
    view.length = folded.sizes[0];
    view.length_stride = folded.strides[0];
  }
  if (kept.count == 2) {
    view.outer = kept.sizes[0];
    view.outer_stride = kept.strides[0];
    view.inner = kept.sizes[1];
    view.inner_stride = kept.strides[1];
  } else if (kept.count == 1 && (view.length == 1 || kept.strides[0] < view.length_stride)) {  // columns
    view.inner = kept.sizes[0];
    view.inner_stride = kept.strides[0];
    if (view.length == 1) view.length_stride = view.inner;
  } else if (kept.count == 1) {  // rows
    view.outer = kept.sizes[0];
    view.outer_stride = kept.strides[0];
  }
  return view;
}

// [outer, length, inner] around one dim; empty where the dims before it, or those after it, cannot be merged into one.
inline std::optional<View> try_view_around(const Tensor& input, int64_t dim) {
  const auto sizes = sizes_of(input), strides = strides_of(input);
  const bool has_elements = std::find(sizes.begin(), sizes.end(), 0) == sizes.end();
  Dims before, after;
  for (int64_t i = 0; i < int64_t(sizes.size()); i++) {
    // Without elements any strides are right, and torch calls all of them contiguous: strides of 0 always merge.
    if (i != dim) (i < dim ? before : after).merge(sizes[i], has_elements ? strides[i] : 0);
  }
  if (before.count > 1 || after.count > 1) return std::nullopt;
  View view;
  if (!sizes.empty()) view.length = sizes[dim], view.length_stride = strides[dim];
  if (before.count == 1) view.outer = before.sizes[0], view.outer_stride = before.strides[0];
  if (after.count == 1) view.inner = after.sizes[0], view.inner_stride = after.strides[0];
  return view;
}

// The same for any tensor, which is made contiguous where it has no such view.
inline View view_around(Tensor& tensor, int64_t dim) {
  if (const std::optional<View> view = try_view_around(tensor, dim)) return *view;
  tensor = made_contiguous(tensor);
  return *try_view_around(tensor, dim);
}

// The tensor's memory with other dims, made contiguous: a copy, unless it is contiguous with these dims.
inline Tensor contiguous_as(const Tensor& tensor, const Dims& dims) {
  AtenTensorHandle handle;
  TORCH_ERROR_CODE_CHECK(aoti_torch_as_strided(tensor.get(), dims.sizes, dims.strides, &handle));
  return made_contiguous(Tensor(handle));
}

// The same elements as contiguous rows: the reduced dims are moved behind the kept ones.
inline Tensor contiguous_rows(const Tensor& input, const DimSet& reduced) {
  const auto sizes = sizes_of(input), strides = strides_of(input);
  Dims permuted;
  for (const bool rows : {false, true}) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (reduced[i] == rows) permuted.push(sizes[i], strides[i]);
    }
  }
  return contiguous_as(input, permuted);
}

// One dim moved to another place, as by torch.movedim, and made contiguous.
inline Tensor contiguous_movedim(const Tensor& tensor, int64_t from, int64_t to) {
  Dims dims = dims_of(tensor);
  dims.move(from, to);
  return contiguous_as(tensor, dims);
}

}  // namespace torch_reductions
