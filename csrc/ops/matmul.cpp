// The products of matrices on one device: this file is compiled into _C for the CPU and, with USE_CUDA, into _C_cuda.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "../common/ceil_div.h"
#include "130_cublas.h"
#include "check.h"
#include "device.h"
#include "tensor.h"

#ifdef USE_CUDA
#include "../cuda/matmul/ladder.h"
#else
#include "../cpu/matmul/ladder.h"
#endif

namespace torch_reductions {
namespace {

using torch::headeronly::ScalarType;

// The type of a product: that of the factors, or `wanted`, which may be float32 or int32 for narrower ones.
Dtype output_dtype(const char* function, Dtype dtype, std::optional<ScalarType> wanted) {
  if (!wanted) return dtype;
  const Dtype out = dtype_of(function, "out_dtype", *wanted);
  const Dtype wide = is_float(dtype) ? Dtype::float32 : Dtype::int32;
  const bool narrow = size_of(dtype) < 4;
  TR_CHECK(out == dtype || (out == wide && narrow), function, "(): out_dtype of ", kDtypeNames[int(dtype)],
           " must be its own type", narrow ? " or " : "", narrow ? kDtypeNames[int(wide)] : "", ", but it is ",
           kDtypeNames[int(out)]);
  return out;
}

// A matrix, or one per batch, in which one of the two strides is 1: a copy where neither is.
Matrix matrix_of(Tensor& tensor) {
  const size_t row = tensor.dim() - 2, column = row + 1;
  auto sizes = sizes_of(tensor), strides = strides_of(tensor);
  if (sizes[row] != 1 && sizes[column] != 1 && strides[row] != 1 && strides[column] != 1) {
    tensor = made_contiguous(tensor);
    sizes = sizes_of(tensor), strides = strides_of(tensor);
  }
  Matrix matrix{tensor.const_data_ptr(), row == 1 ? strides[0] : 0, strides[row], strides[column]};
  if (matrix.row_stride != 1 && matrix.column_stride != 1) {  // the stride of a dim of size 1 is not used
    if (sizes[column] == 1) matrix.column_stride = 1;
    else if (sizes[row] == 1) matrix.row_stride = 1;
  }
  return matrix;
}

// The tensor that is added, broadcast to [batch, m, n] by strides of 0.
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

// How many parts torch.chunk cuts k elements into: the last ones may lack. Integers need none.
int parts_of(Dtype dtype, int64_t k, int64_t wanted) {
  wanted = std::min({wanted, k, int64_t(INT32_MAX)});
  return is_float(dtype) && k > 0 ? int(ceil_div(k, ceil_div(k, wanted))) : 1;
}

struct Factors {
  double beta = 0, alpha = 1;
};

using Parts = std::vector<int64_t>;  // of k, and of the sums of both gradients, which only Python reads

// alpha a b + beta input, of matrices or of batches of them. The messages use the names of torch's arguments.
Tensor multiply(Product function, const Tensor* input, Tensor a, Tensor b, Factors factors,
                std::optional<ScalarType> out_dtype, const Parts& parts, int64_t variant) {
  const char* name = name_of(function);
  const bool batched = function == Product::bmm || function == Product::baddbmm;
  const size_t dims = batched ? 3 : 2;
  const auto of_a = sizes_of(a), of_b = sizes_of(b);
  TR_CHECK(of_a.size() == dims && of_b.size() == dims, name, "(): the factors must have ", dims, " dims, but have ",
           of_a.size(), " and ", of_b.size());
  const Dtype dtype = dtype_of(name, "input", a.scalar_type());
  TR_CHECK(a.scalar_type() == b.scalar_type(), name, "(): the factors must have the same dtype");
  TR_CHECK(dtype != Dtype::boolean, name, "(): there is no product of bool");
  const auto check_device = [&](const Tensor& other) {
    TR_CHECK(on_same_device(a, other), name, "(): all tensors must be on the same device");
  };
  check_device(b);
  const Dtype out = output_dtype(name, dtype, out_dtype);
  const int rung = check_variant(kMatmulLadder, variant, kMatmulAuto, kDevice, function, dtype);
  TR_CHECK(parts.size() == 3 && std::ranges::min(parts) > 0, name, "(): parts must be positive, three of them");
  TR_CHECK(parts[0] == 1 || rung == kMatmulAuto, name, "(): variant ", rung, " does not cut k into parts");
  const int64_t batch = batched ? of_a[0] : 1, m = of_a[dims - 2], k = of_a[dims - 1], n = of_b[dims - 1];
  TR_CHECK(of_b[dims - 2] == k && (!batched || of_b[0] == batch), name, "(): shapes cannot be multiplied: ", batch,
           " of ", m, "x", k, " and ", batched ? of_b[0] : 1, " of ", of_b[dims - 2], "x", n);
  TR_CHECK(is_float(dtype) || (factors.alpha == 1 && (factors.beta == 0 || factors.beta == 1)), name,
           "(): alpha and beta of integers must be 1 here");

  Dims shape;
  if (batched) shape.push(batch);
  shape.push(m);
  shape.push(n);
  Matrix added{};
  std::optional<Tensor> addend;
  if (input) {
    check_device(*input);
    TR_CHECK(input->scalar_type() == a.scalar_type() || input->scalar_type() == scalar_type_of(out), name,
             "(): input must have the dtype of the factors, or that of the result");
    addend = cast(*input, out);
    added = broadcast(*addend, name, {shape.sizes, size_t(shape.count)});
    if (factors.beta == 0) added.data = nullptr;  // not read: 0 times NaN would be NaN
  }
#ifdef USE_CUDA
  if (rung == kMatmulCublas && batch > 0 && m > 0 && n > 0)
    return multiply_by_torch(a, b, addend, factors.alpha, factors.beta, scalar_type_of(out));
#endif
  Tensor output = empty(shape, out, a);
  if (output.numel() == 0) return output;
  const MatmulArgs args{.function = function,
                        .dtype = dtype,
                        .output_dtype = out,
                        .parts = parts_of(dtype, k, parts[0]),
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
  run_rung(backend::matmul, rung, args, a);
  return output;
}

template <Product function>
Tensor product(const Tensor& input, const Tensor& mat2, std::optional<ScalarType> out_dtype, const Parts& parts,
               int64_t variant) {
  return multiply(function, nullptr, input, mat2, {}, out_dtype, parts, variant);
}

template <Product function>
Tensor sum_with_product(const Tensor& input, const Tensor& mat1, const Tensor& mat2, double beta, double alpha,
                        std::optional<ScalarType> out_dtype, const Parts& parts, int64_t variant) {
  return multiply(function, &input, mat1, mat2, {beta, alpha}, out_dtype, parts, variant);
}

}  // namespace
}  // namespace torch_reductions

STABLE_TORCH_LIBRARY_IMPL(torch_reductions, TR_DISPATCH_KEY, m) {
  using namespace torch_reductions;
  if (!is_only_copy()) return;
  m.impl("mm", TORCH_BOX(&product<Product::mm>));
  m.impl("bmm", TORCH_BOX(&product<Product::bmm>));
  m.impl("addmm", TORCH_BOX(&sum_with_product<Product::addmm>));
  m.impl("baddbmm", TORCH_BOX(&sum_with_product<Product::baddbmm>));
}
