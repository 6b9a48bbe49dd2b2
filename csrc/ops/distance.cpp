// Sums of squared distances on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "check.h"
#include "device.h"
#include "tensor.h"

#ifdef USE_CUDA
#include "../cuda/distance/ladder.h"
#else
#include "../cpu/distance/ladder.h"
#endif

namespace torch_reductions {
namespace {

// Type, rung and centers of a call, without its points.
DistanceArgs args_of(Distance function, const Tensor& centers, int64_t& variant) {
  const char* name = name_of(function);
  const Dtype dtype = dtype_of(name, "centers", centers.scalar_type());
  TR_CHECK(centers.dim() == 2, name, "(): centers must be [C, D], but have ", centers.dim(), " dims");
  TR_CHECK(is_float(dtype), name, "(): there are no distances of ", kDtypeNames[int(dtype)]);
  variant = check_variant(kDistanceLadder, variant, kDistanceAuto, kDevice, function, dtype);
  DistanceArgs args{};
  args.function = function, args.dtype = dtype;
  args.dims = centers.size(1);
  args.centers_count = args.dims == 0 ? 0 : centers.size(0);
  return args;
}

Tensor run(DistanceArgs& args, const Tensor& centers, Tensor output, int64_t rung) {
  if (output.numel() == 0) return output;
  const Tensor rows = torch::stable::contiguous(centers);
  args.centers = rows.const_data_ptr();
  args.output = output.mutable_data_ptr();
  args.count = output.numel();
  const bool found = on_device(rows, [&](auto&& device) { return backend::distance(rung, args, device); });
  TR_CHECK(found, "variant ", rung, " is in the table and not in this library");
  return output;
}

Tensor sum_squared_distances(Tensor points, Tensor centers, int64_t variant) {
  const char* name = name_of(Distance::sum_squared_distances);
  DistanceArgs args = args_of(Distance::sum_squared_distances, centers, variant);
  TR_CHECK(points.scalar_type() == centers.scalar_type(), name, "(): points and centers differ in dtype");
  TR_CHECK(points.is_cuda() == centers.is_cuda() && points.get_device_index() == centers.get_device_index(), name,
           "(): points and centers must be on the same device");
  TR_CHECK(points.dim() <= kMaxDims, "points has ", points.dim(), " dimensions; only tensors with up to ", kMaxDims,
           " are supported");
  const int64_t last = points.dim() - 1;
  TR_CHECK(last >= 0 && points.size(last) == args.dims, name, "(): the last dim of points must have ", args.dims,
           " coordinates, as centers have");
  Dims shape, kept;
  for (int64_t i = 0; i < last; i++) {
    shape.push(points.size(i), 0);
    kept.merge(points.size(i), points.stride(i));
  }
  if (kept.count > 1) points = torch::stable::contiguous(points);  // its points are not one stride apart
  args.point_stride = kept.count > 1 ? args.dims : kept.count == 1 ? kept.strides[0] : 0;
  args.dim_stride = points.stride(last);
  args.points = points.const_data_ptr();
  return run(args, centers, empty(shape, args.dtype, points), variant);
}

Tensor grid_squared_distances(Tensor centers, int64_t height, int64_t width, int64_t variant) {
  const char* name = name_of(Distance::grid_squared_distances);
  DistanceArgs args = args_of(Distance::grid_squared_distances, centers, variant);
  TR_CHECK(args.dims == 2, name, "(): centers must be [C, 2]: x, the column, and y, the row");
  TR_CHECK(height >= 0 && width >= 0, name, "(): height and width must not be negative, but are ", height, " and ",
           width);
  Dims shape;
  shape.push(height, 0);
  shape.push(width, 0);
  args.width = width;
  return run(args, centers, empty(shape, args.dtype, centers), variant);
}

void register_kernels(torch::stable::detail::StableLibrary& m) {
  m.impl("sum_squared_distances", TORCH_BOX(&sum_squared_distances));
  m.impl("grid_squared_distances", TORCH_BOX(&grid_squared_distances));
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
