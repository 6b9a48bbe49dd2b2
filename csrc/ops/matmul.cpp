// The products of matrices on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>

#include "check.h"
#include "device.h"
#include "tensor.h"

#ifdef USE_CUDA
#include "../cuda/matmul/ladder.h"
#include "torch_product.h"
#else
#include "../cpu/matmul/ladder.h"
#endif

namespace torch_reductions {
namespace {

using torch::headeronly::ScalarType;

// What a product of this type may be rounded to.
Dtype output_dtype(const char* function, Dtype dtype, std::optional<ScalarType> wanted) {
  if (!wanted) return dtype;
  const Dtype out = dtype_of(function, "out_dtype", *wanted);
  const Dtype wide = is_float(dtype) ? Dtype::float32 : Dtype::int32;
  TR_CHECK(out == dtype || (out == wide && size_of(dtype) < 4), function, "(): out_dtype of ", kDtypeNames[int(dtype)],
           " must be its own type", size_of(dtype) < 4 ? " or " : "", size_of(dtype) < 4 ? kDtypeNames[int(wide)] : "",
           ", but it is ", kDtypeNames[int(out)]);
  return out;
}

// A matrix of each batch, or one matrix: a copy where neither of its strides is 1.
Matrix matrix_of(Tensor& tensor) {
  for (const bool again : {false, true}) {
    const auto sizes = sizes_of(tensor), strides = strides_of(tensor);
    const size_t row = sizes.size() - 2, column = sizes.size() - 1;
    Matrix matrix{nullptr, row == 1 ? strides[0] : 0, strides[row], strides[column]};
    if (matrix.row_stride != 1 && matrix.column_stride != 1) {
      if (sizes[column] == 1) matrix.column_stride = 1;
      else if (sizes[row] == 1) matrix.row_stride = 1;
      else if (!again) {
        tensor = torch::stable::contiguous(tensor);
        continue;
      }
    }
    matrix.data = tensor.const_data_ptr();
    return matrix;
  }
  return {};  // not reached: the strides of a contiguous matrix are right
}

// The strides of what is added, broadcast to [batch, m, n].
Matrix broadcast(const Tensor& added, const char* function, std::span<const int64_t> shape) {
  const auto sizes = sizes_of(added), strides = strides_of(added);
  TR_CHECK(sizes.size() <= shape.size(), function, "(): input has ", sizes.size(), " dims, which cannot be ",
           "broadcast to the ", shape.size(), " of the product");
  int64_t seen[3] = {0, 0, 0};
  for (size_t i = 0; i < sizes.size(); i++) {
    const size_t at = shape.size() - sizes.size() + i;
    TR_CHECK(sizes[i] == 1 || sizes[i] == shape[at], function, "(): input has ", sizes[i], " elements in dim ", i,
             ", which cannot be broadcast to the ", shape[at], " of the product");
    seen[3 - shape.size() + at] = sizes[i] == 1 ? 0 : strides[i];
  }
  return {added.const_data_ptr(), seen[0], seen[1], seen[2]};
}

struct Factors {
  double beta = 0, alpha = 1;
};

// Of matrices, or of a batch of them; the names are those of torch's arguments.
Tensor multiply(Product function, const std::optional<Tensor>& given, Tensor a, Tensor b, Factors factors,
                std::optional<ScalarType> out_dtype, int64_t variant) {
  const char* name = name_of(function);
  const bool batched = function == Product::bmm || function == Product::baddbmm;
  const int64_t dims = batched ? 3 : 2;
  TR_CHECK(a.dim() == dims && b.dim() == dims, name, "(): the factors must have ", dims, " dims, but have ", a.dim(),
           " and ", b.dim());
  const Dtype dtype = dtype_of(name, "input", a.scalar_type());
  TR_CHECK(a.scalar_type() == b.scalar_type(), name, "(): the factors must have the same dtype");
  TR_CHECK(dtype != Dtype::boolean, name, "(): there is no product of bool");
  const auto same_device = [&](const Tensor& other) {
    TR_CHECK(a.is_cuda() == other.is_cuda() && a.get_device_index() == other.get_device_index(), name,
             "(): all tensors must be on the same device");
  };
  same_device(b);
  const Dtype out = output_dtype(name, dtype, out_dtype);
  const int rung = check_variant(kMatmulLadder, variant, kMatmulAuto, kDevice, function, dtype);
  const int64_t batch = batched ? a.size(0) : 1, m = a.size(dims - 2), k = a.size(dims - 1), n = b.size(dims - 1);
  TR_CHECK(b.size(dims - 2) == k && (!batched || b.size(0) == batch), name, "(): shapes cannot be multiplied: ", batch,
           " of ", m, "x", k, " and ", batched ? b.size(0) : 1, " of ", b.size(dims - 2), "x", n);
  TR_CHECK(is_float(dtype) || (factors.alpha == 1 && (factors.beta == 0 || factors.beta == 1)), name,
           "(): alpha and beta of integers must be 1 here");

  Dims shape;
  if (batched) shape.push(batch, 0);
  shape.push(m, 0);
  shape.push(n, 0);
  Tensor output = empty(shape, out, a);
  Matrix added{};
  std::optional<Tensor> other;
  if (given) {
    same_device(*given);
    TR_CHECK(given->scalar_type() == a.scalar_type() || given->scalar_type() == scalar_type_of(out), name,
             "(): input must have the dtype of the factors, or that of the result");
    other = given->scalar_type() == scalar_type_of(out) ? *given : torch::stable::to(*given, scalar_type_of(out));
    added = broadcast(*other, name, {shape.sizes, size_t(shape.count)});
    if (factors.beta == 0) added.data = nullptr;  // NaN in it does not count
  }
  if (output.numel() == 0) return output;
#ifdef USE_CUDA
  if (rung == kMatmulCublas) return multiply_by_torch(a, b, other, factors.alpha, factors.beta, scalar_type_of(out));
#endif
  const MatmulArgs args{.function = function,
                        .dtype = dtype,
                        .output_dtype = out,
                        .a = matrix_of(a),
                        .b = matrix_of(b),
                        .added = added,
                        .alpha = factors.alpha,
                        .beta = factors.beta,
                        .output = output.mutable_data_ptr(),
                        .batch = batch,
                        .m = m,
                        .n = n,
                        .k = k};
  const bool found = on_device(a, [&](auto&& device) { return backend::matmul(rung, args, device); });
  TR_CHECK(found, "variant ", variant, " is in the table and not in this library");
  return output;
}

template <Product function>
Tensor product(Tensor input, Tensor mat2, std::optional<ScalarType> out_dtype, int64_t variant) {
  return multiply(function, std::nullopt, input, mat2, {}, out_dtype, variant);
}

template <Product function>
Tensor sum_with_product(Tensor input, Tensor mat1, Tensor mat2, double beta, double alpha,
                        std::optional<ScalarType> out_dtype, int64_t variant) {
  return multiply(function, input, mat1, mat2, {beta, alpha}, out_dtype, variant);
}

void register_kernels(torch::stable::detail::StableLibrary& m) {
  m.impl("mm", TORCH_BOX(&product<Product::mm>));
  m.impl("bmm", TORCH_BOX(&product<Product::bmm>));
  m.impl("addmm", TORCH_BOX(&sum_with_product<Product::addmm>));
  m.impl("baddbmm", TORCH_BOX(&sum_with_product<Product::baddbmm>));
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
