// The reductions of packed segments on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into
// _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>

#include "check.h"
#include "device.h"
#include "fold_types.h"
#include "segments.h"
#include "tensor.h"

#ifdef USE_CUDA
#include "../cuda/segment/ladder.h"
#else
#include "../cpu/segment/ladder.h"
#endif

namespace torch_reductions {
namespace {

using torch::headeronly::ScalarType;

Tensor reduce_segments(Segment function, Tensor input, Tensor cu_seqlens, int64_t dim, FoldTypes types,
                       int64_t variant) {
  const char* const name = name_of(function);
  const int64_t ndim = input.dim();
  TR_CHECK(ndim > 0 && ndim <= kMaxDims, name, "(): input must have 1 to ", kMaxDims, " dimensions, but it has ", ndim);
  dim = wrap_dim(name, dim, ndim);
  const int rung = check_variant(kSegmentLadder, variant, kSegmentAuto, kDevice, function, types.input);
  const Segments segments = check_cu_seqlens(name, cu_seqlens, input, sizes_of(input)[dim]);

  Dims shape = dims_of(input);
  shape.sizes[dim] = segments.count;
  Tensor output = empty(shape, types.output, input);
  if (output.numel() == 0) return output;
  input = cast(input, types.input);
  const View view = view_around(input, dim);
  const SegmentArgs args{.function = function,
                         .input_dtype = types.input,
                         .output_dtype = types.output,
                         .input = input.const_data_ptr(),
                         .output = output.mutable_data_ptr(),
                         .outer = view.outer,
                         .length = segments.length,
                         .inner = view.inner,
                         .outer_stride = view.outer_stride,
                         .length_stride = view.length_stride,
                         .inner_stride = view.inner_stride,
                         .segments = segments};
  run_rung(backend::segment, rung, args, input);
  return output;
}

template <Segment function>
Tensor fold(const Tensor& input, const Tensor& cu_seqlens, int64_t dim, std::optional<ScalarType> dtype,
            int64_t variant) {
  const Dtype given = dtype_of(name_of(function), "input", input.scalar_type());
  const FoldTypes types = fold_types(fold_of(function), name_of(function), given, dtype, true);
  return reduce_segments(function, input, cu_seqlens, dim, types, variant);
}

template <Segment function>
Tensor extreme(const Tensor& input, const Tensor& cu_seqlens, int64_t dim, int64_t variant) {
  const Dtype dtype = dtype_of(name_of(function), "input", input.scalar_type());
  return reduce_segments(function, input, cu_seqlens, dim, {dtype, dtype}, variant);
}

}  // namespace
}  // namespace torch_reductions

STABLE_TORCH_LIBRARY_IMPL(torch_reductions, TR_DISPATCH_KEY, m) {
  using namespace torch_reductions;
  if (!is_only_copy()) return;
  m.impl("segment_sum", TORCH_BOX(&fold<Segment::segment_sum>));
  m.impl("segment_prod", TORCH_BOX(&fold<Segment::segment_prod>));
  m.impl("segment_mean", TORCH_BOX(&fold<Segment::segment_mean>));
  m.impl("segment_amax", TORCH_BOX(&extreme<Segment::segment_amax>));
  m.impl("segment_amin", TORCH_BOX(&extreme<Segment::segment_amin>));
}
