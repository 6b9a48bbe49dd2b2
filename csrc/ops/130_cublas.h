// cublas
// Changes: no kernel of ours: torch's own operators, which call cuBLAS: the baseline.
// Costs:   the bits depend on m, n, the version of cuBLAS and the device. addmm rounds after the product, after each
//          factor and after the sum.
// Gains:   years of tuning for each size and device.
// Order:   cuBLAS's own.
// Needs:   what torch needs; torch's flags apply, including those of reduced precision.
// See:     NVIDIA, cuBLAS Library User Guide.
#pragma once
#include <torch/csrc/stable/ops.h>

#include <array>
#include <optional>

namespace torch_reductions {
namespace {

template <size_t N>
torch::stable::Tensor call_torch(const char* name, const char* overload, std::array<StableIValue, N> stack) {
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, overload, stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<torch::stable::Tensor>(stack[0]);
}

inline torch::stable::Tensor scaled_by_torch(const torch::stable::Tensor& x, double factor) {
  using torch::stable::detail::from;
  if (factor == 1) return x;
  const torch::stable::Tensor scalar = torch::stable::full({}, factor, torch::headeronly::ScalarType::Double);
  return call_torch("aten::mul", "Tensor", std::array{from(x), from(scalar)});
}

// alpha (a b) + beta added, rounded after each step, as torch's operators round. added has the type of the result.
inline torch::stable::Tensor multiply_by_torch(const torch::stable::Tensor& a, const torch::stable::Tensor& b,
                                               const std::optional<torch::stable::Tensor>& added, double alpha,
                                               double beta, torch::headeronly::ScalarType out) {
  using torch::stable::detail::from;
  const char* name = a.dim() == 3 ? "aten::bmm" : "aten::mm";
  const torch::stable::Tensor product = out == a.scalar_type()
                                            ? call_torch(name, "", std::array{from(a), from(b)})
                                            : call_torch(name, "dtype", std::array{from(a), from(b), from(out)});
  if (!added || beta == 0) return scaled_by_torch(product, alpha);
  // The first operand decides the strides of the result.
  return torch::stable::subtract(scaled_by_torch(product, alpha), scaled_by_torch(*added, beta), -1);
}

}  // namespace
}  // namespace torch_reductions
