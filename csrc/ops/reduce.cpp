// The seven reductions on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <limits>
#include <optional>
#include <vector>

#include "check.h"
#include "device.h"
#include "fold_types.h"
#include "tensor.h"

#ifdef USE_CUDA
#include "../cuda/reduce/ladder.h"
#else
#include "../cpu/reduce/ladder.h"
#endif

namespace torch_reductions {
namespace {

using torch::headeronly::ScalarType;

bool is_ordered(int64_t variant) { return variant == 0 || variant == kReduceAuto; }

double of_no_elements(Function function) {
  if (function == Function::mean) return std::numeric_limits<double>::quiet_NaN();
  return function == Function::prod ? 1 : 0;
}

// The rungs of the textbook take contiguous rows, and sum integers into int64: the rest is done here, around them.
Tensor reduce(Function function, Tensor input, const DimSet& reduced, bool keepdim, FoldTypes types, int64_t variant) {
  const int rung = check_variant(kReduceLadder, variant, kReduceAuto, kDevice, function, types.input);
  const bool any_layout = is_ordered(rung);
  const bool narrow = !any_layout && !is_float(types.output) && function <= Function::mean;
  const Dtype output_dtype = narrow ? Dtype::int64 : types.output;

  Dims shape = reduced_shape(input, reduced, keepdim);
  Tensor output = empty(shape, output_dtype, input);
  const int64_t results = output.numel();
  const int64_t elements = input.numel();
  if (results > 0 && elements == 0) {
    torch::stable::fill_(output, of_no_elements(function));
  } else if (results > 0) {
    const ScalarType type = scalar_type_of(types.input);
    if (type != input.scalar_type()) input = torch::stable::to(input, type);
    std::optional<View> view = view_of(input, reduced);
    if (!view || (!any_layout && !view->is_contiguous_rows())) {
      input = contiguous_rows(input, reduced);
      view = View{.outer = results, .length = elements / results, .outer_stride = elements / results};
    }
    const ReduceArgs args{.function = function,
                          .input_dtype = types.input,
                          .output_dtype = output_dtype,
                          .input = input.const_data_ptr(),
                          .output = output.mutable_data_ptr(),
                          .outer = view->outer,
                          .length = view->length,
                          .inner = view->inner,
                          .outer_stride = view->outer_stride,
                          .length_stride = view->length_stride,
                          .inner_stride = view->inner_stride};
    const bool found = on_device(input, [&](auto&& device) { return backend::reduce(rung, args, device); });
    TR_CHECK(found, "variant ", variant, " is in the table and not in this library");
  }
  return narrow && types.output != Dtype::int64 ? torch::stable::to(output, scalar_type_of(types.output)) : output;
}

using OptionalDims = std::optional<std::vector<int64_t>>;

template <Function function>
Tensor fold(const Tensor& input, OptionalDims dim, bool keepdim, std::optional<ScalarType> dtype, int64_t variant) {
  const DimSet reduced =
      dim_set(name_of(function), dim ? std::span<const int64_t>(*dim) : std::span<const int64_t>(), input.dim());
  const FoldTypes types =
      fold_types(function, name_of(function), dtype_of(name_of(function), "input", input.scalar_type()), dtype,
                 is_ordered(variant));
  return reduce(function, input, reduced, keepdim, types, variant);
}

// An extreme of no elements does not exist.
void check_nonempty(Function function, const Tensor& input, const DimSet& reduced, bool dim_given) {
  if (input.numel() > 0) return;
  const char* name = kFunctionNames[int(function)];
  TR_CHECK(dim_given, name,
           "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
           "reduction dim with the 'dim' argument.");
  const auto sizes = sizes_of(input);
  for (size_t i = 0; i < sizes.size(); ++i) {
    TR_CHECK(!reduced[i] || sizes[i] > 0, name, "(): Expected reduction dim ", i, " to have non-zero size.");
  }
}

template <Function function>
Tensor extreme(const Tensor& input, std::vector<int64_t> dim, bool keepdim, int64_t variant) {
  const DimSet reduced = dim_set(name_of(function), dim, input.dim());
  check_nonempty(function, input, reduced, !dim.empty());
  const Dtype dtype = dtype_of(name_of(function), "input", input.scalar_type());
  return reduce(function, input, reduced, keepdim, {dtype, dtype}, variant);
}

template <Function function>
Tensor arg_extreme(const Tensor& input, std::optional<int64_t> dim, bool keepdim, int64_t variant) {
  const DimSet reduced =
      dim_set(name_of(function), dim ? std::span<const int64_t>(&*dim, 1) : std::span<const int64_t>(), input.dim());
  check_nonempty(function, input, reduced, dim.has_value());
  const Dtype dtype = dtype_of(name_of(function), "input", input.scalar_type());
  TR_CHECK(dtype != Dtype::boolean, kFunctionNames[int(function)], "(): does not support bool input");
  return reduce(function, input, reduced, keepdim, {dtype, Dtype::int64}, variant);
}

void register_kernels(torch::stable::detail::StableLibrary& m) {
  m.impl("sum", TORCH_BOX(&fold<Function::sum>));
  m.impl("prod", TORCH_BOX(&fold<Function::prod>));
  m.impl("mean", TORCH_BOX(&fold<Function::mean>));
  m.impl("amax", TORCH_BOX(&extreme<Function::amax>));
  m.impl("amin", TORCH_BOX(&extreme<Function::amin>));
  m.impl("argmax", TORCH_BOX(&arg_extreme<Function::argmax>));
  m.impl("argmin", TORCH_BOX(&arg_extreme<Function::argmin>));
}

}  // namespace
}  // namespace torch_reductions

#ifdef USE_CUDA
STABLE_TORCH_LIBRARY_IMPL(torch_reductions, CUDA, m) { torch_reductions::register_kernels(m); }

#ifdef TORCH_REDUCTIONS_ARCHS
// The architectures that this library was compiled for, as setup.py names them.
extern "C" __attribute__((visibility("default"))) const char* torch_reductions_cuda_archs() {
  return TORCH_REDUCTIONS_ARCHS;
}
#endif
#else
STABLE_TORCH_LIBRARY_IMPL(torch_reductions, CPU, m) {
  if (torch_reductions::is_only_copy()) torch_reductions::register_kernels(m);
}
#endif
