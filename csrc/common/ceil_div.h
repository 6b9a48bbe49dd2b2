// a / b, rounded up; neither is negative.
#pragma once
#include <cstdint>

namespace torch_reductions {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace torch_reductions
