// The sum of two tensors on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <utility>

#include "check.h"
#include "device.h"
#include "tensor.h"

#ifdef USE_CUDA
#include "../cuda/add/ladder.h"
#else
#include "../cpu/add/ladder.h"
#endif

namespace torch_reductions {
namespace {

// The shape of the result, and the operands' strides for it: 0 where one is broadcast.
struct Broadcast {
  int dims = 0;
  int64_t sizes[kAddDims], strides[2][kAddDims];

  Broadcast(const Tensor& input, const Tensor& other) {
    const std::span<const int64_t> own_sizes[] = {sizes_of(input), sizes_of(other)};
    const std::span<const int64_t> own_strides[] = {strides_of(input), strides_of(other)};
    const size_t count = std::max(own_sizes[0].size(), own_sizes[1].size());
    TR_CHECK(count <= size_t(kAddDims), "add(): only tensors of up to ", kAddDims, " dims are supported");
    dims = int(count);
    for (size_t d = 0; d < count; d++) {
      sizes[d] = 1;
      for (int o : {0, 1}) {
        const size_t missing = count - own_sizes[o].size();
        const int64_t size = d < missing ? 1 : own_sizes[o][d - missing];
        TR_CHECK(size == sizes[d] || size == 1 || sizes[d] == 1,
                 "add(): the size of input must match that of other in ", "dim ", d, ", where neither is 1");
        if (size != 1) sizes[d] = size;
      }
      for (int o : {0, 1}) {
        const size_t missing = count - own_sizes[o].size();
        const bool repeats = d < missing || (own_sizes[o][d - missing] == 1 && sizes[d] != 1);
        strides[o][d] = repeats ? 0 : own_strides[o][d - missing];
      }
    }
  }

  // Orders two dims by the operands' strides, as reorder_dimensions of torch's TensorIterator does, so that the sum of
  // two transposed matrices is transposed as well. Negative where `outer` should be the outer one, positive where
  // `inner` should be, 0 where the strides do not tell.
  int compare(int inner, int outer) const {
    for (const auto& of : strides) {
      const int64_t a = of[inner], b = of[outer];
      if (a == 0 || b == 0) continue;
      if (a != b) return a < b ? -1 : 1;
      if (sizes[inner] > sizes[outer]) return 1;
    }
    return 0;
  }

  // The dims in the order of the result's memory, the innermost first: an insertion sort, as in torch.
  void sort(int (&order)[kAddDims]) const {
    for (int d = 0; d < dims; d++) order[d] = dims - 1 - d;
    for (int i = 1; i < dims; i++) {
      for (int at = i, before = i - 1; before >= 0; before--) {
        const int found = compare(order[before], order[at]);
        if (found < 0) break;
        if (found > 0) std::swap(order[before], order[at]), at = before;
      }
    }
  }
};

Tensor empty_in_order(const Broadcast& shape, const int (&order)[kAddDims], Dtype dtype, const Tensor& like) {
  int64_t strides[kAddDims], stride = 1;
  for (int d = 0; d < shape.dims; d++) {
    strides[order[d]] = stride;
    stride *= std::max<int64_t>(shape.sizes[order[d]], 1);
  }
  return empty_strided(shape.dims, shape.sizes, strides, dtype, like);
}

// Sizes and strides in the order of the result's memory. Neighbouring dims are merged where both operands allow it.
void set_layout(const Broadcast& shape, const int (&order)[kAddDims], AddArgs& args) {
  for (int i = 0; i < shape.dims; i++) {
    const int d = order[i];
    const int64_t size = shape.sizes[d], of_input = shape.strides[0][d], of_other = shape.strides[1][d];
    if (size == 1) continue;
    args.count *= size;
    if (args.dims == 0) args.columns = size;
    const int last = args.dims - 1;
    if (last >= 0 && of_input == args.sizes[last] * args.input_strides[last] &&
        of_other == args.sizes[last] * args.other_strides[last]) {
      args.sizes[last] *= size;
    } else {
      args.sizes[args.dims] = size, args.input_strides[args.dims] = of_input;
      args.other_strides[args.dims++] = of_other;
    }
  }
  if (args.dims > 0) return;
  args.dims = 1, args.sizes[0] = 1, args.input_strides[0] = args.other_strides[0] = 1;
}

Tensor add(const Tensor& input, const Tensor& other, double alpha, int64_t variant) {
  const Dtype dtype = dtype_of("add", "input", input.scalar_type());
  TR_CHECK(input.scalar_type() == other.scalar_type(), "add(): input and other must have the same dtype here");
  TR_CHECK(on_same_device(input, other), "add(): all tensors must be on the same device");
  TR_CHECK(is_float(dtype) || (alpha >= -0x1p63 && alpha < 0x1p63 && alpha == double(int64_t(alpha))),
           "add(): alpha of integers must be a whole number");
  const int rung = check_variant(kAddLadder, variant, kAddAuto, kDevice, Add::add, dtype);
  const Broadcast shape(input, other);
  int order[kAddDims];
  shape.sort(order);
  Tensor output = empty_in_order(shape, order, dtype, input);
  if (output.numel() == 0) return output;
  AddArgs args;  // its arrays stay as they are beyond the dims
  args.dtype = dtype;
  args.input = input.const_data_ptr(), args.other = other.const_data_ptr(), args.output = output.mutable_data_ptr();
  args.alpha = dtype == Dtype::boolean ? double(alpha != 0) : alpha;
  args.count = args.columns = 1, args.dims = 0;
  set_layout(shape, order, args);
  run_rung(backend::add, rung, args, input);
  return output;
}

}  // namespace
}  // namespace torch_reductions

STABLE_TORCH_LIBRARY_IMPL(torch_reductions, TR_DISPATCH_KEY, m) {
  if (torch_reductions::is_only_copy()) m.impl("add", TORCH_BOX(&torch_reductions::add));
}
