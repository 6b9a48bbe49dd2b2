// The linear recurrence on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "carried.h"
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

constexpr Recurrence kFunction = Recurrence::linear_recurrence;
constexpr const char* kName = "linear_recurrence";

// Fails unless another tensor of the call has the type and device of the tokens.
void check_beside_tokens(const Tensor& tensor, const char* name, const Tensor& tokens, Dtype dtype) {
  TR_CHECK(dtype_of(kName, name, tensor.scalar_type()) == dtype, "linear_recurrence(): ", name,
           " and tokens must have the same dtype");
  TR_CHECK(on_same_device(tensor, tokens), "linear_recurrence(): ", name, " and tokens must be on the same device");
}

// The initial state has the shape of the tokens without dim, or, where there are segments, with one element per segment
// along dim. segments: how many there are, -1 for a call without cu_seqlens.
void check_shapes(const Tensor& gates, const Tensor& tokens, const std::optional<Tensor>& initial, int64_t dim,
                  int64_t segments) {
  const auto sizes = sizes_of(tokens), others = sizes_of(gates);
  TR_CHECK(std::equal(sizes.begin(), sizes.end(), others.begin(), others.end()),
           "linear_recurrence(): gates and tokens must have the same shape");
  if (!initial) return;
  Dims wanted;
  for (int64_t i = 0; i < int64_t(sizes.size()); i++) {
    if (i != dim) wanted.push(sizes[i]);
    else if (segments >= 0) wanted.push(segments);
  }
  if (sizes.empty() && segments >= 0) wanted.push(segments);
  const auto given = sizes_of(*initial);
  TR_CHECK(std::equal(wanted.sizes, wanted.sizes + wanted.count, given.begin(), given.end()),
           "linear_recurrence(): initial must have the shape of tokens without dim ", dim,
           segments < 0 ? "" : ", or with the segments in its place");
}

Strides strides_in(const View& view) { return {view.outer_stride, view.length_stride, view.inner_stride}; }

// What a recurrence goes on from, a step for each line; then receives the total steps of the lines' own elements.
struct Carried {
  std::optional<Tensor> gates, tokens;
  bool return_total;
};

// In `carried`, if there is one, totals replace what came before.
Tensor recur(Tensor gates, Tensor tokens, std::optional<Tensor> initial, int64_t dim, std::optional<Tensor> cu_seqlens,
             bool reverse, int64_t variant, Carried* carried) {
  const Dtype dtype = dtype_of(kName, "tokens", tokens.scalar_type());
  TR_CHECK(is_float(dtype), "linear_recurrence(): tokens must be of a floating-point type");
  check_beside_tokens(gates, "gates", tokens, dtype);
  if (initial) check_beside_tokens(*initial, "initial", tokens, dtype);
  check_ndim("tokens", tokens.dim());
  dim = wrap_dim(kName, dim, tokens.dim());
  const int64_t length = tokens.dim() == 0 ? 1 : tokens.size(dim);
  Segments segments{};
  if (cu_seqlens) segments = check_cu_seqlens(kName, *cu_seqlens, tokens, length);
  check_shapes(gates, tokens, initial, dim, cu_seqlens ? segments.count : -1);
  const int rung = check_variant(kRecurrenceLadder, variant, kRecurrenceAuto, kDevice, kFunction, dtype);

  Carried before{}, totals{};
  if (carried) {
    TR_CHECK(carried->gates.has_value() == carried->tokens.has_value(),
             "linear_recurrence(): before_gates and before_tokens must be given together");
    const Dtype wide = accumulator_of(dtype);
    if (carried->gates) {
      before.gates = check_before(kName, "before_gates", *carried->gates, tokens, dim, wide);
      before.tokens = check_before(kName, "before_tokens", *carried->tokens, tokens, dim, wide);
    }
    for (auto* total : {&totals.gates, &totals.tokens})
      *total = totals_for(tokens, dim, length, carried->return_total, wide);
    carried->gates = totals.gates, carried->tokens = totals.tokens;
  }
  Dims shape = dims_of(tokens);
  Tensor output = empty(shape, dtype, tokens);
  if (output.numel() == 0) return output;
  if (length == 1 && rung == kRecurrenceAuto && !initial && !cu_seqlens && !carried) {  // one token is its own state
    torch::stable::copy_(output, tokens);
    return output;
  }
  const View view = view_around(tokens, dim);
  const Strides token_strides = strides_in(view), gate_strides = strides_in(view_around(gates, dim));
  if (initial) initial = made_contiguous(*initial);
  const RecurrenceArgs args{.dtype = dtype,
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
                            .segments = segments,
                            .before_gates = before.gates ? before.gates->const_data_ptr() : nullptr,
                            .before_tokens = before.tokens ? before.tokens->const_data_ptr() : nullptr,
                            .total_gates = totals.gates ? data_of(*totals.gates) : nullptr,
                            .total_tokens = totals.tokens ? data_of(*totals.tokens) : nullptr};
  run_rung(backend::recurrence, rung, args, tokens);
  return output;
}

Tensor linear_recurrence(Tensor gates, Tensor tokens, std::optional<Tensor> initial, int64_t dim,
                         std::optional<Tensor> cu_seqlens, bool reverse, int64_t variant) {
  return recur(gates, tokens, initial, dim, cu_seqlens, reverse, variant, nullptr);
}

std::tuple<Tensor, Tensor, Tensor> linear_recurrence_from(Tensor gates, Tensor tokens,
                                                          std::optional<Tensor> before_gates,
                                                          std::optional<Tensor> before_tokens,
                                                          std::optional<Tensor> initial, int64_t dim,
                                                          bool return_total) {
  Carried carried{before_gates, before_tokens, return_total};
  const Tensor output = recur(gates, tokens, initial, dim, std::nullopt, false, 0, &carried);
  return {output, *carried.gates, *carried.tokens};
}

}  // namespace
}  // namespace torch_reductions

STABLE_TORCH_LIBRARY_IMPL(torch_reductions, TR_DISPATCH_KEY, m) {
  using namespace torch_reductions;
  if (!is_only_copy()) return;
  m.impl("linear_recurrence", TORCH_BOX(&linear_recurrence));
  m.impl("linear_recurrence_from", TORCH_BOX(&linear_recurrence_from));
}
