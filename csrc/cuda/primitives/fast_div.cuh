// Division by a divisor that the host knows: a multiplication and a shift.
#pragma once
#include <cstdint>

#include "../../common/dtype.h"

namespace torch_reductions::cuda {

// Exact for 0 <= n < 2^31. With 2^s >= divisor > 2^(s - 1) and the multiplier m = 2^(31 + s) / divisor rounded up, m n
// is less than 2^(31 + s) / divisor too large (Granlund and Montgomery, 1994).
struct FastDiv {
  unsigned divisor = 1, multiplier = 1u << 31;
  int shift = 31;

  FastDiv() = default;
  // Of 2^31 and more only `quotient` may be asked.
  explicit FastDiv(int64_t d) {
    if (d > INT32_MAX) return;
    divisor = unsigned(d);
    while (int64_t(1) << (shift - 31) < d) shift++;
    multiplier = unsigned(((uint64_t(1) << shift) + uint64_t(d) - 1) / uint64_t(d));
  }
  HOST_DEVICE unsigned div(unsigned n) const { return unsigned(uint64_t(n) * multiplier >> shift); }
  // n / d of any n, where this was made of d.
  HOST_DEVICE int64_t quotient(int64_t n, int64_t d) const {
    return n < d ? 0 : n >> 31 ? n / d : int64_t(div(unsigned(n)));
  }
};

}  // namespace torch_reductions::cuda
