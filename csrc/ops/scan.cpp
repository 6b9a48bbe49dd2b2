// The scans on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <tuple>

#include "check.h"
#include "device.h"
#include "segments.h"
#include "tensor.h"

#ifdef USE_CUDA
#include "../cuda/scan/ladder.h"
#else
#include "../cpu/scan/ladder.h"
#endif

namespace torch_reductions {
namespace {

using torch::headeronly::ScalarType;

// Where the results stand, and how many there are for `length` elements.
struct Form {
  int64_t dim;
  bool exclusive, reverse, include_initial;

  int64_t results(int64_t length) const { return length + include_initial; }
};

Form form_of(Scan function, const Tensor& input, int64_t dim, bool exclusive, bool reverse, bool include_initial) {
  STD_TORCH_CHECK(input.dim() <= kMaxDims, "input has ", input.dim(), " dimensions; only tensors with up to ", kMaxDims,
                  " are supported");
  STD_TORCH_CHECK(
      !(exclusive && include_initial), name_of(function),
      "(): exclusive and include_initial exclude each other: the result with the initial element holds both "
      "the exclusive and the inclusive scan");
  return {wrap_dim(dim, input.dim()), exclusive, reverse, include_initial};
}

// Rows of results, the scanned dim last, as the tensor whose scanned dim stands where it should.
Tensor from_rows(const Tensor& rows, int64_t dim) {
  const auto sizes = sizes_of(rows), strides = strides_of(rows);
  Dims moved;
  const int64_t last = int64_t(sizes.size()) - 1;
  for (int64_t i = 0; i <= last; i++) {
    const int64_t source = i < dim ? i : i == dim ? last : i - 1;
    moved.push(sizes[source], strides[source]);
  }
  AtenTensorHandle handle;
  TORCH_ERROR_CODE_CHECK(aoti_torch_as_strided(rows.get(), moved.sizes, moved.strides, &handle));
  return torch::stable::contiguous(Tensor(handle));
}

Tensor cast(const Tensor& input, Dtype dtype) {
  const ScalarType type = scalar_type_of(dtype);
  return type == input.scalar_type() ? input : torch::stable::to(input, type);
}

struct Results {
  Tensor values;
  std::optional<Tensor> indices;
};

// Those of a rung that knows of segments.
Segments segments_for(int rung, Scan function, Tensor& cu_seqlens, const Tensor& input, const Form& form,
                      int64_t length) {
  STD_TORCH_CHECK(!form.include_initial, name_of(function),
                  "(): include_initial and cu_seqlens exclude each other: segments have no room for initial elements");
  STD_TORCH_CHECK(kDevice == kCpu || rung == kScanAuto, name_of(function), "(): variant ", rung,
                  " does not take cu_seqlens on cuda; choose auto (0)");
  return check_cu_seqlens(name_of(function), cu_seqlens, input, length);
}

// The rung of the textbook takes contiguous rows: the rest is done here, around it.
Results scan(Scan function, Tensor input, const Form& form, std::optional<Tensor> cu_seqlens, int64_t variant) {
  const Dtype dtype = dtype_of(input.scalar_type(), "input");
  const int rung = check_variant(kScanLadder, variant, kScanAuto, kDevice, function, dtype);
  const auto sizes = sizes_of(input);
  const int64_t ndim = int64_t(sizes.size()), length = ndim == 0 ? 1 : sizes[form.dim];

  Segments segments{};
  if (cu_seqlens) segments = segments_for(rung, function, *cu_seqlens, input, form, length);

  const bool as_rows = rung != kScanAuto && form.dim + 1 < ndim;
  Dims shape;
  for (int64_t i = 0; i < ndim; i++) {
    if (i != form.dim) shape.push(sizes[i], 0);
    else if (!as_rows) shape.push(form.results(length), 0);
  }
  // The one element of a tensor without dimensions and its initial one make two.
  if (as_rows || (ndim == 0 && form.include_initial)) shape.push(form.results(length), 0);
  Results results{empty(shape, dtype, input), std::nullopt};
  if (function >= Scan::cummax) results.indices = empty(shape, Dtype::int64, input);

  const int64_t count = results.values.numel();
  if (count > 0) {
    std::optional<View> view;
    if (as_rows) {
      DimSet scanned;
      scanned[form.dim] = true;
      input = contiguous_rows(input, scanned);
      const int64_t rows = count / form.results(length);
      view = View{.outer = rows, .length = length, .outer_stride = length};
    } else {
      view = view_around(input, form.dim);
      if (!view || (rung != kScanAuto && !view->is_contiguous_rows())) {
        input = torch::stable::contiguous(input);
        view = view_around(input, form.dim);
      }
    }
    const ScanArgs args{
        .function = function,
        .dtype = dtype,
        .input = input.const_data_ptr(),
        .output = results.values.mutable_data_ptr(),
        .indices = results.indices ? static_cast<int64_t*>(results.indices->mutable_data_ptr()) : nullptr,
        .outer = view->outer,
        .length = length,
        .results = form.results(length),
        .inner = view->inner,
        .outer_stride = view->outer_stride,
        .length_stride = view->length_stride,
        .inner_stride = view->inner_stride,
        .exclusive = form.exclusive || form.include_initial,
        .reverse = form.reverse,
        .segments = segments};
    const bool found = on_device(input, [&](auto&& device) { return backend::scan(rung, args, device); });
    STD_TORCH_CHECK(found, "variant ", variant, " is in the table and not in this library");
  }
  if (as_rows) {
    results.values = from_rows(results.values, form.dim);
    if (results.indices) results.indices = from_rows(*results.indices, form.dim);
  }
  return results;
}

template <Scan function>
Tensor accumulate(const Tensor& input, int64_t dim, std::optional<Tensor> cu_seqlens, std::optional<ScalarType> dtype,
                  bool exclusive, bool reverse, bool include_initial, int64_t variant) {
  const Form form = form_of(function, input, dim, exclusive, reverse, include_initial);
  const Dtype given = dtype_of(input.scalar_type(), "input");
  const Dtype output = dtype ? dtype_of(*dtype, "dtype") : is_float(given) ? given : Dtype::int64;
  if (output != Dtype::boolean) return scan(function, cast(input, output), form, cu_seqlens, variant).values;
  const Tensor counts = cast(cast(input, Dtype::boolean), Dtype::int64);
  return cast(scan(function, counts, form, cu_seqlens, variant).values, Dtype::boolean);
}

Tensor log_accumulate(const Tensor& input, int64_t dim, std::optional<Tensor> cu_seqlens, bool exclusive, bool reverse,
                      bool include_initial, int64_t variant) {
  const Form form = form_of(Scan::logcumsumexp, input, dim, exclusive, reverse, include_initial);
  const Dtype dtype = dtype_of(input.scalar_type(), "input");
  STD_TORCH_CHECK(is_float(dtype), "\"logcumsumexp\" not implemented for ", kDtypeNames[int(dtype)],
                  "; supported are float16, bfloat16, float32 and float64");
  return scan(Scan::logcumsumexp, input, form, cu_seqlens, variant).values;
}

template <Scan function>
std::tuple<Tensor, Tensor> extreme(const Tensor& input, int64_t dim, std::optional<Tensor> cu_seqlens, bool exclusive,
                                   bool reverse, bool include_initial, int64_t variant) {
  const Form form = form_of(function, input, dim, exclusive, reverse, include_initial);
  const Dtype dtype = dtype_of(input.scalar_type(), "input");
  const Results results =
      scan(function, dtype == Dtype::boolean ? cast(input, Dtype::uint8) : input, form, cu_seqlens, variant);
  return {cast(results.values, dtype), *results.indices};
}

void register_kernels(torch::stable::detail::StableLibrary& m) {
  m.impl("cumsum", TORCH_BOX(&accumulate<Scan::cumsum>));
  m.impl("cumprod", TORCH_BOX(&accumulate<Scan::cumprod>));
  m.impl("logcumsumexp", TORCH_BOX(&log_accumulate));
  m.impl("cummax", TORCH_BOX(&extreme<Scan::cummax>));
  m.impl("cummin", TORCH_BOX(&extreme<Scan::cummin>));
}

}  // namespace
}  // namespace torch_reductions

#ifdef USE_CUDA
STABLE_TORCH_LIBRARY_IMPL(torch_reductions, CUDA, m) { torch_reductions::register_kernels(m); }
#else
STABLE_TORCH_LIBRARY_IMPL(torch_reductions, CPU, m) { torch_reductions::register_kernels(m); }
#endif
