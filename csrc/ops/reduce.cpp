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

// The result where there are no elements. Only sum, prod and mean have one.
double empty_value(Function function) {
  if (function == Function::mean) return std::numeric_limits<double>::quiet_NaN();
  return function == Function::prod ? 1 : 0;
}

// The rungs of the textbook take contiguous rows, and sum integers into int64 or int32; ordered takes any view and type.
Tensor reduce(Function function, Tensor input, const DimSet& reduced, bool keepdim, FoldTypes types, int64_t variant) {
  const int rung = check_variant(kReduceLadder, variant, kReduceAuto, kDevice, function, types.input);
  const bool textbook = rung != kReduceAuto;
  const bool into_int64 =
      textbook && !is_float(types.output) && types.output != Dtype::int32 && function <= Function::mean;
  const Dtype output_dtype = into_int64 ? Dtype::int64 : types.output;

  Dims shape = reduced_shape(input, reduced, keepdim);
  Tensor output = empty(shape, output_dtype, input);
  const int64_t results = output.numel(), elements = input.numel();
  if (results > 0 && elements == 0) {
    torch::stable::fill_(output, empty_value(function));
  } else if (results > 0) {
    input = cast(input, types.input);
    std::optional<View> view = view_of(input, reduced);
    if (!view || (textbook && !view->is_contiguous_rows())) {
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
    run_rung(backend::reduce, rung, args, input);
  }
  return cast(output, types.output);
}

template <Function function>
Tensor fold(const Tensor& input, const std::optional<std::vector<int64_t>>& dim, bool keepdim,
            std::optional<ScalarType> dtype, int64_t variant) {
  const char* const name = name_of(function);
  const DimSet reduced = dim_set(name, {dim ? dim->data() : nullptr, dim ? dim->size() : 0}, input.dim());
  const bool ordered = variant == 0 || variant == kReduceAuto;
  const FoldTypes types = fold_types(function, name, dtype_of(name, "input", input.scalar_type()), dtype, ordered);
  return reduce(function, input, reduced, keepdim, types, variant);
}

// Fails where an extreme would be one of no elements.
void check_nonempty(const char* name, const Tensor& input, const DimSet& reduced, bool dim_given) {
  if (input.numel() > 0) return;
  TR_CHECK(dim_given, name,
           "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
           "'dim' argument.");
  const auto sizes = sizes_of(input);
  for (size_t i = 0; i < sizes.size(); ++i) {
    TR_CHECK(!reduced[i] || sizes[i] > 0, name, "(): Expected reduction dim ", i, " to have non-zero size.");
  }
}

template <Function function>
Tensor extreme(const Tensor& input, const std::vector<int64_t>& dim, bool keepdim, int64_t variant) {
  const char* const name = name_of(function);
  const DimSet reduced = dim_set(name, dim, input.dim());
  check_nonempty(name, input, reduced, !dim.empty());
  const Dtype dtype = dtype_of(name, "input", input.scalar_type());
  return reduce(function, input, reduced, keepdim, {dtype, dtype}, variant);
}

template <Function function>
Tensor arg_extreme(const Tensor& input, std::optional<int64_t> dim, bool keepdim, int64_t variant) {
  const char* const name = name_of(function);
  const DimSet reduced = dim_set(name, {dim ? &*dim : nullptr, size_t(dim.has_value())}, input.dim());
  check_nonempty(name, input, reduced, dim.has_value());
  const Dtype dtype = dtype_of(name, "input", input.scalar_type());
  TR_CHECK(dtype != Dtype::boolean, name, "(): does not support bool input");
  return reduce(function, input, reduced, keepdim, {dtype, Dtype::int64}, variant);
}

}  // namespace
}  // namespace torch_reductions

STABLE_TORCH_LIBRARY_IMPL(torch_reductions, TR_DISPATCH_KEY, m) {
  using namespace torch_reductions;
  if (!is_only_copy()) return;
  m.impl("sum", TORCH_BOX(&fold<Function::sum>));
  m.impl("prod", TORCH_BOX(&fold<Function::prod>));
  m.impl("mean", TORCH_BOX(&fold<Function::mean>));
  m.impl("amax", TORCH_BOX(&extreme<Function::amax>));
  m.impl("amin", TORCH_BOX(&extreme<Function::amin>));
  m.impl("argmax", TORCH_BOX(&arg_extreme<Function::argmax>));
  m.impl("argmin", TORCH_BOX(&arg_extreme<Function::argmin>));
}

#ifdef TORCH_REDUCTIONS_ARCHS
// The architectures that this library was compiled for, as setup.py names them.
extern "C" __attribute__((visibility("default"))) const char* torch_reductions_cuda_archs() {
  return TORCH_REDUCTIONS_ARCHS;
}
#endif
