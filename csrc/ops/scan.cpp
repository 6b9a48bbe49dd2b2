// The scans on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "check.h"
#include "device.h"
#include "mask.h"
#include "out.h"
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

// What an operator is called with, beside its input and types.
struct Options {
  int64_t dim;
  std::optional<Tensor> cu_seqlens, mask;
  bool exclusive, reverse, include_initial;
  int64_t variant;

  int64_t results(int64_t length) const { return length + include_initial; }  // that `length` elements make
};

// Fails for a dim or a form that there is none of; the dim then counts from the front.
Options checked(Scan function, const Tensor& input, Options options) {
  TR_CHECK(input.dim() <= kMaxDims, "input has ", input.dim(), " dimensions; only tensors with up to ", kMaxDims,
           " are supported");
  TR_CHECK(!(options.exclusive && options.include_initial), name_of(function),
           "(): exclusive and include_initial exclude each other: the result with the initial element holds both "
           "the exclusive and the inclusive scan");
  options.dim = wrap_dim(name_of(function), options.dim, input.dim());
  return options;
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
Segments segments_for(int rung, Scan function, Tensor& cu_seqlens, const Tensor& input, const Options& options,
                      int64_t length) {
  TR_CHECK(!options.include_initial, name_of(function),
           "(): include_initial and cu_seqlens exclude each other: segments have no room for initial elements");
  TR_CHECK(kDevice == kCpu || rung == kScanAuto, name_of(function), "(): variant ", rung,
           " does not take cu_seqlens on cuda; choose auto (0)");
  return check_cu_seqlens(name_of(function), cu_seqlens, input, length);
}

// The mask in the shape of the input, for a rung that knows of masks.
Tensor mask_for(int rung, Scan function, const Tensor& mask, const Tensor& input) {
  TR_CHECK(kDevice == kCpu || rung == kScanAuto, name_of(function), "(): variant ", rung,
           " does not take a mask on cuda; choose auto (0)");
  return check_mask(name_of(function), mask, input);
}

// The rung of the textbook takes contiguous rows: the rest is done here, around it. `out`, if there is one, is where the
// results would be best: they are elsewhere where that is no memory for a kernel.
Results scan(Scan function, Tensor input, Options options, const Results* out) {
  const Dtype dtype = dtype_of(name_of(function), "input", input.scalar_type());
  const int rung = check_variant(kScanLadder, options.variant, kScanAuto, kDevice, function, dtype);
  const auto sizes = sizes_of(input);
  const int64_t ndim = int64_t(sizes.size()), length = ndim == 0 ? 1 : sizes[options.dim];

  Segments segments{};
  if (options.cu_seqlens) segments = segments_for(rung, function, *options.cu_seqlens, input, options, length);
  if (options.mask) options.mask = mask_for(rung, function, *options.mask, input);

  Dims shape;
  for (int64_t i = 0; i < ndim; i++) shape.push(i == options.dim ? options.results(length) : sizes[i], 0);
  // The one element of a tensor without dimensions and its initial one make two.
  if (ndim == 0 && options.include_initial) shape.push(options.results(length), 0);
  if (out) check_out_shape(out->values, shape, name_of(function));
  if (out && out->indices) check_out_shape(*out->indices, shape, name_of(function));

  const bool as_rows = rung != kScanAuto && options.dim + 1 < ndim;
  if (as_rows) std::rotate(shape.sizes + options.dim, shape.sizes + options.dim + 1, shape.sizes + ndim);
  // Of what is written nothing may be read any more.
  const auto is_free = [&](const Tensor& given) {
    const auto shares = [&](const std::optional<Tensor>& read) { return read && overlap(given, *read); };
    return !as_rows && !overlap(given, input) && !shares(options.cu_seqlens) && !shares(options.mask);
  };
  const auto place = [&](Dtype type, const Tensor* given) {
    return given && is_free(*given) ? given_or_new(*given, shape, type) : empty(shape, type, input);
  };
  Results results{place(dtype, out ? &out->values : nullptr), std::nullopt};
  if (function >= Scan::cummax) results.indices = place(Dtype::int64, out ? &*out->indices : nullptr);

  const int64_t count = results.values.numel();
  if (count > 0) {
    View view;
    Mask mask{};
    if (as_rows) {
      DimSet scanned;
      scanned[options.dim] = true;
      input = contiguous_rows(input, scanned);
      if (options.mask) options.mask = contiguous_rows(*options.mask, scanned);
      const int64_t rows = count / options.results(length);
      view = View{.outer = rows, .length = length, .outer_stride = length};
    } else {
      view = view_around(input, options.dim);
      if (rung != kScanAuto && !view.is_contiguous_rows()) {
        input = torch::stable::contiguous(input);
        view = view_around(input, options.dim);
      }
    }
    if (options.mask) mask = mask_around(*options.mask, as_rows ? ndim - 1 : options.dim);
    const ScanArgs args{
        .function = function,
        .dtype = dtype,
        .input = input.const_data_ptr(),
        .output = results.values.mutable_data_ptr(),
        .indices = results.indices ? static_cast<int64_t*>(results.indices->mutable_data_ptr()) : nullptr,
        .outer = view.outer,
        .length = length,
        .results = options.results(length),
        .inner = view.inner,
        .outer_stride = view.outer_stride,
        .length_stride = view.length_stride,
        .inner_stride = view.inner_stride,
        .exclusive = options.exclusive || options.include_initial,
        .reverse = options.reverse,
        .segments = segments,
        .front = 0,
        .mask = mask};
    const bool found = on_device(input, [&](auto&& device) { return backend::scan(rung, args, device); });
    TR_CHECK(found, "variant ", options.variant, " is in the table and not in this library");
  }
  if (as_rows) {
    results.values = from_rows(results.values, options.dim);
    if (results.indices) results.indices = from_rows(*results.indices, options.dim);
  }
  return results;
}

template <Scan function>
Tensor accumulate_into(const Tensor& input, Dtype output, const Options& given, const Results* out) {
  const Options options = checked(function, input, given);
  if (output != Dtype::boolean) return scan(function, cast(input, output), options, out).values;
  const Tensor counts = cast(cast(input, Dtype::boolean), Dtype::int64);
  return cast(scan(function, counts, options, out).values, Dtype::boolean);
}

template <Scan function>
Tensor accumulate(const Tensor& input, int64_t dim, std::optional<Tensor> cu_seqlens, std::optional<Tensor> mask,
                  std::optional<ScalarType> dtype, bool exclusive, bool reverse, bool include_initial,
                  int64_t variant) {
  const Dtype given = dtype_of(name_of(function), "input", input.scalar_type());
  const Dtype output = dtype ? dtype_of(name_of(function), "dtype", *dtype) : is_float(given) ? given : Dtype::int64;
  const Options options{dim, cu_seqlens, mask, exclusive, reverse, include_initial, variant};
  return accumulate_into<function>(input, output, options, nullptr);
}

// As in torch the type of out is that of the result, where none is named.
template <Scan function>
void accumulate_out(const Tensor& input, int64_t dim, std::optional<Tensor> cu_seqlens, std::optional<Tensor> mask,
                    std::optional<ScalarType> dtype, bool exclusive, bool reverse, bool include_initial,
                    int64_t variant, Tensor out) {
  const char* const name = name_of(function);
  dtype_of(name_of(function), "input", input.scalar_type());
  check_out_device(out, input, name, "out");
  const Dtype output = dtype_of(name, dtype ? "dtype" : "out", dtype.value_or(out.scalar_type()));
  check_out_dtype(out, scalar_type_of(output), name, "out");
  const Options options{dim, cu_seqlens, mask, exclusive, reverse, include_initial, variant};
  const Results into{out, std::nullopt};
  deliver(out, accumulate_into<function>(input, output, options, &into));
}

Tensor log_accumulate_into(const Tensor& input, const Options& options, const Results* out) {
  const Dtype dtype = dtype_of(name_of(Scan::logcumsumexp), "input", input.scalar_type());
  TR_CHECK(is_float(dtype), "\"logcumsumexp\" not implemented for ", kDtypeNames[int(dtype)],
           "; supported are float16, bfloat16, float32 and float64");
  return scan(Scan::logcumsumexp, input, checked(Scan::logcumsumexp, input, options), out).values;
}

Tensor log_accumulate(const Tensor& input, int64_t dim, std::optional<Tensor> cu_seqlens, std::optional<Tensor> mask,
                      bool exclusive, bool reverse, bool include_initial, int64_t variant) {
  return log_accumulate_into(input, {dim, cu_seqlens, mask, exclusive, reverse, include_initial, variant}, nullptr);
}

void log_accumulate_out(const Tensor& input, int64_t dim, std::optional<Tensor> cu_seqlens, std::optional<Tensor> mask,
                        bool exclusive, bool reverse, bool include_initial, int64_t variant, Tensor out) {
  const char* const name = name_of(Scan::logcumsumexp);
  check_out_device(out, input, name, "out");
  check_out_dtype(out, input.scalar_type(), name, "out");
  const Options options{dim, cu_seqlens, mask, exclusive, reverse, include_initial, variant};
  const Results into{out, std::nullopt};
  deliver(out, log_accumulate_into(input, options, &into));
}

template <Scan function>
Results extreme_into(const Tensor& input, const Options& options, const Results* out) {
  const Dtype dtype = dtype_of(name_of(function), "input", input.scalar_type());
  const Tensor scanned = dtype == Dtype::boolean ? cast(input, Dtype::uint8) : input;
  const Results results = scan(function, scanned, checked(function, input, options), out);
  return {cast(results.values, dtype), results.indices};
}

template <Scan function>
std::tuple<Tensor, Tensor> extreme(const Tensor& input, int64_t dim, std::optional<Tensor> cu_seqlens,
                                   std::optional<Tensor> mask, bool exclusive, bool reverse, bool include_initial,
                                   int64_t variant) {
  const Options options{dim, cu_seqlens, mask, exclusive, reverse, include_initial, variant};
  const Results made = extreme_into<function>(input, options, nullptr);
  return {made.values, *made.indices};
}

template <Scan function>
void extreme_out(const Tensor& input, int64_t dim, std::optional<Tensor> cu_seqlens, std::optional<Tensor> mask,
                 bool exclusive, bool reverse, bool include_initial, int64_t variant, Tensor values, Tensor indices) {
  const char* const name = name_of(function);
  check_out_device(values, input, name, "values");
  check_out_device(indices, input, name, "indices");
  check_out_dtype(values, input.scalar_type(), name, "values");
  check_out_dtype(indices, ScalarType::Long, name, "indices");
  TR_CHECK(!overlap(values, indices), name, "(): values and indices of out share memory; give each its own");
  const Options options{dim, cu_seqlens, mask, exclusive, reverse, include_initial, variant};
  const Results into{values, indices};
  const Results made = extreme_into<function>(input, options, &into);
  deliver(values, made.values);
  deliver(indices, *made.indices);
}

void register_kernels(torch::stable::detail::StableLibrary& m) {
  m.impl("cumsum", TORCH_BOX(&accumulate<Scan::cumsum>));
  m.impl("cumprod", TORCH_BOX(&accumulate<Scan::cumprod>));
  m.impl("logcumsumexp", TORCH_BOX(&log_accumulate));
  m.impl("cummax", TORCH_BOX(&extreme<Scan::cummax>));
  m.impl("cummin", TORCH_BOX(&extreme<Scan::cummin>));
  m.impl("cumsum.out", TORCH_BOX(&accumulate_out<Scan::cumsum>));
  m.impl("cumprod.out", TORCH_BOX(&accumulate_out<Scan::cumprod>));
  m.impl("logcumsumexp.out", TORCH_BOX(&log_accumulate_out));
  m.impl("cummax.out", TORCH_BOX(&extreme_out<Scan::cummax>));
  m.impl("cummin.out", TORCH_BOX(&extreme_out<Scan::cummin>));
}

}  // namespace
}  // namespace torch_reductions

#ifdef USE_CUDA
STABLE_TORCH_LIBRARY_IMPL(torch_reductions, CUDA, m) { torch_reductions::register_kernels(m); }
#else
STABLE_TORCH_LIBRARY_IMPL(torch_reductions, CPU, m) {
  if (torch_reductions::is_only_copy()) torch_reductions::register_kernels(m);
}
#endif
