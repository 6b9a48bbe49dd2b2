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

// Checks the centers and begins the arguments of a call, which has no points and no output yet.
DistanceArgs args_of(Distance function, const Tensor& centers) {
  const char* const name = name_of(function);
  const Dtype dtype = dtype_of(name, "centers", centers.scalar_type());
  TR_CHECK(centers.dim() == 2, name, "(): centers must be [C, D], but have ", centers.dim(), " dims");
  TR_CHECK(is_float(dtype), name, "(): there are no distances of ", kDtypeNames[int(dtype)]);
  DistanceArgs args{};
  args.dtype = dtype;
  args.dims = centers.size(1);
  args.centers_count = args.dims == 0 ? 0 : centers.size(0);
  return args;
}

// The distances of the points in `args`, in a new tensor of that shape.
Tensor run_distance(Distance function, DistanceArgs& args, const Tensor& centers, Dims& shape, int64_t variant) {
  const int rung = check_variant(kDistanceLadder, variant, kDistanceAuto, kDevice, function, args.dtype);
  Tensor output = empty(shape, args.dtype, centers);
  args.count = output.numel();
  if (args.count == 0) return output;
  const Tensor rows = made_contiguous(centers);
  args.centers = rows.const_data_ptr();
  args.output = output.mutable_data_ptr();
  run_rung(backend::distance, rung, args, rows);
  return output;
}

Tensor sum_squared_distances(Tensor points, Tensor centers, int64_t variant) {
  constexpr Distance function = Distance::sum_squared_distances;
  const char* const name = name_of(function);
  DistanceArgs args = args_of(function, centers);
  TR_CHECK(points.scalar_type() == centers.scalar_type(), name, "(): points and centers differ in dtype");
  TR_CHECK(on_same_device(points, centers), name, "(): points and centers must be on the same device");
  check_ndim("points", points.dim());
  const int64_t last = points.dim() - 1;
  TR_CHECK(last >= 0 && points.size(last) == args.dims, name, "(): the last dim of points must have ", args.dims,
           " coordinates, as centers have");
  Dims shape = dims_of(points), batch;
  shape.count = last;
  for (int64_t i = 0; i < last; i++) batch.merge(shape.sizes[i], shape.strides[i]);
  if (batch.count > 1) points = made_contiguous(points);  // no single stride leads from point to point
  args.point_stride = batch.count > 1 ? args.dims : batch.count == 1 ? batch.strides[0] : 0;
  args.dim_stride = points.stride(last);
  args.points = points.const_data_ptr();
  return run_distance(function, args, centers, shape, variant);
}

Tensor grid_squared_distances(Tensor centers, int64_t height, int64_t width, int64_t variant) {
  constexpr Distance function = Distance::grid_squared_distances;
  const char* const name = name_of(function);
  DistanceArgs args = args_of(function, centers);
  TR_CHECK(args.dims == 2, name, "(): centers must be [C, 2]: x, the column, and y, the row");
  TR_CHECK(height >= 0 && width >= 0, name, "(): height and width must not be negative, but are ", height, " and ",
           width);
  Dims shape;
  shape.push(height);
  shape.push(width);
  args.width = width;
  return run_distance(function, args, centers, shape, variant);
}

}  // namespace
}  // namespace torch_reductions

STABLE_TORCH_LIBRARY_IMPL(torch_reductions, TR_DISPATCH_KEY, m) {
  using namespace torch_reductions;
  if (!is_only_copy()) return;
  m.impl("sum_squared_distances", TORCH_BOX(&sum_squared_distances));
  m.impl("grid_squared_distances", TORCH_BOX(&grid_squared_distances));
}
