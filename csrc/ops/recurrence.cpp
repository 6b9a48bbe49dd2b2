// The linear recurrence on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <optional>

#include "check.h"
#include "device.h"
#include "segments.h"
#include "tensor.h"

#ifdef USE_CUDA
#include "../cuda/recurrence/ladder.h"
#else
#include "../cpu/recurrence/ladder.h"
#endif

namespace torch_reductions {
namespace {

// Another tensor of the call must be of the tokens' type and device.
void check_beside_tokens(const Tensor& tensor, const char* name, const Tensor& tokens, Dtype dtype) {
  TR_CHECK(dtype_of("linear_recurrence", name, tensor.scalar_type()) == dtype, "linear_recurrence(): ", name,
           " and tokens must have the same dtype");
  TR_CHECK(tensor.is_cuda() == tokens.is_cuda() && tensor.get_device_index() == tokens.get_device_index(),
           "linear_recurrence(): ", name, " and tokens must be on the same device");
}

// segments: how many there are, which the initial states have in the place of dim; -1 where there is one for each line.
void check_shapes(const Tensor& gates, const Tensor& tokens, const std::optional<Tensor>& initial, int64_t dim,
                  int64_t segments) {
  const auto sizes = sizes_of(tokens), others = sizes_of(gates);
  TR_CHECK(std::equal(sizes.begin(), sizes.end(), others.begin(), others.end()),
           "linear_recurrence(): gates and tokens must have the same shape");
  if (!initial) return;
  Dims wanted;
  for (int64_t i = 0; i < int64_t(sizes.size()); i++) {
    if (i != dim) wanted.push(sizes[i], 0);
    else if (segments >= 0) wanted.push(segments, 0);
  }
  if (sizes.empty() && segments >= 0) wanted.push(segments, 0);
  const auto given = sizes_of(*initial);
  TR_CHECK(std::equal(wanted.sizes, wanted.sizes + wanted.count, given.begin(), given.end()),
           "linear_recurrence(): initial must have the shape of tokens without dim ", dim,
           segments < 0 ? "" : ", or with the segments in its place");
}

Strides strides_in(const View& view) { return {view.outer_stride, view.length_stride, view.inner_stride}; }

Tensor linear_recurrence(Tensor gates, Tensor tokens, std::optional<Tensor> initial, int64_t dim,
                         std::optional<Tensor> cu_seqlens, bool reverse, int64_t variant) {
  const Dtype dtype = dtype_of("linear_recurrence", "tokens", tokens.scalar_type());
  TR_CHECK(is_float(dtype), "linear_recurrence(): tokens must be of a floating-point type");
  check_beside_tokens(gates, "gates", tokens, dtype);
  if (initial) check_beside_tokens(*initial, "initial", tokens, dtype);
  TR_CHECK(tokens.dim() <= kMaxDims, "tokens has ", tokens.dim(), " dimensions; only tensors with up to ", kMaxDims,
           " are supported");
  dim = wrap_dim("linear_recurrence", dim, tokens.dim());
  Segments segments{};
  if (cu_seqlens) {
    segments = check_cu_seqlens("linear_recurrence", *cu_seqlens, tokens, tokens.dim() == 0 ? 1 : tokens.size(dim));
  }
  check_shapes(gates, tokens, initial, dim, cu_seqlens ? segments.count : -1);
  constexpr Recurrence function = Recurrence::linear_recurrence;
  const int rung = check_variant(kRecurrenceLadder, variant, kRecurrenceAuto, kDevice, function, dtype);

  Dims shape = reduced_shape(tokens, DimSet(), false);
  Tensor output = empty(shape, dtype, tokens);
  if (output.numel() == 0) return output;
  const View view = view_around(tokens, dim);
  const Strides token_strides = strides_in(view), gate_strides = strides_in(view_around(gates, dim));
  if (initial) initial = torch::stable::contiguous(*initial);
  const RecurrenceArgs args{.function = function,
                            .dtype = dtype,
                            .gates = gates.const_data_ptr(),
                            .tokens = tokens.const_data_ptr(),
                            .initial = initial ? initial->const_data_ptr() : nullptr,
                            .output = output.mutable_data_ptr(),
                            .outer = view.outer,
                            .length = view.length,
                            .inner = view.inner,
                            .gate_strides = gate_strides,
                            .token_strides = token_strides,
                            .reverse = reverse,
                            .segments = segments};
  const bool found = on_device(tokens, [&](auto&& device) { return backend::recurrence(rung, args, device); });
  TR_CHECK(found, "variant ", variant, " is in the table and not in this library");
  return output;
}

void register_kernels(torch::stable::detail::StableLibrary& m) {
  m.impl("linear_recurrence", TORCH_BOX(&linear_recurrence));
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
