// The operators of reductions and scans: {Value, identity, combine}, the same code on the CPU and on the GPU.
//
// combine(left, right) takes its operands in the order of the elements. identity() is what a missing operand may be
// replaced by: identity ∘ x is x for every x, to the bit (-0.0 for a sum: -0.0 + 0.0 is 0.0 and -0.0 + -0.0 is -0.0).
// commutes: does combine(a, b) have the bits of combine(b, a)? Not Max: of -0 and +0 the left one stays.
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "dtype.h"
#include "log_add.h"

namespace torch_reductions {

// Constants, because device code may not call the host's numeric_limits.
template <class A>
inline constexpr A kMost =
    std::is_floating_point_v<A> ? std::numeric_limits<A>::infinity() : std::numeric_limits<A>::max();
template <class A>
inline constexpr A kLeast = std::is_floating_point_v<A> ? -kMost<A> : std::numeric_limits<A>::lowest();

template <class A>
struct Sum {
  using Value = A;
  static constexpr bool commutes = true;
  static HOST_DEVICE A identity() { return std::is_floating_point_v<A> ? A(-0.0) : A(0); }
  static HOST_DEVICE A combine(A left, A right) {
    if constexpr (std::is_integral_v<A>) return A(uint64_t(left) + uint64_t(right));  // wraps
    else return left + right;
  }
};

template <class A>
struct Prod {
  using Value = A;
  static constexpr bool commutes = true;
  static HOST_DEVICE A identity() { return A(1); }
  static HOST_DEVICE A combine(A left, A right) {
    if constexpr (std::is_integral_v<A>) return A(uint64_t(left) * uint64_t(right));  // wraps
    else return left * right;
  }
};

template <class A>
HOST_DEVICE bool is_nan(A x) {
  return x != x;
}

// The larger one; NaN wins; of equal values, -0 and +0 among them, the left one stays.
template <class A>
struct Max {
  using Value = A;
  static constexpr bool commutes = false;
  static HOST_DEVICE A identity() { return kLeast<A>; }
  static HOST_DEVICE A combine(A left, A right) { return right > left || is_nan(right) ? right : left; }
};

template <class A>
struct Min {
  using Value = A;
  static constexpr bool commutes = false;
  static HOST_DEVICE A identity() { return kMost<A>; }
  static HOST_DEVICE A combine(A left, A right) { return right < left || is_nan(right) ? right : left; }
};

// The reverse order, exactly: min(x) is flip(max(flip(x))), and argmin(x) is argmax(flip(x)). NaN stays NaN.
HOST_DEVICE float flip(float x) { return -x; }
HOST_DEVICE int32_t flip(int32_t x) { return ~x; }
HOST_DEVICE double flip(double x) { return -x; }
HOST_DEVICE int64_t flip(int64_t x) { return ~x; }

// A value and where it stood.
template <class A, class I = int64_t, bool Padded = (sizeof(A) > sizeof(I))>
struct Indexed {
  A value;
  I index;
};
#ifdef CUDA_ON_CPU
// The emulator reports reads of uninitialised memory. Here the padding is a member, so that copying a value reads no
// uninitialised bytes.
template <class A, class I>
struct Indexed<A, I, true> {
  A value;
  I index, padding;
};
#endif

// The first index of the largest value; NaN counts as the largest. left stands before right, so that a tie keeps left
// without a comparison of the indices; except for the identity, whose index lies beyond all.
template <class A, class I = int64_t>
struct ArgMax {
  using Value = Indexed<A, I>;
  static constexpr bool commutes = false;
  static HOST_DEVICE Value identity() { return {Max<A>::identity(), kMost<I>}; }
  static HOST_DEVICE Value combine(Value left, Value right) {
    const bool larger = !(right.value <= left.value) && !is_nan(left.value);  // or right is the first NaN
    return larger || left.index > right.index ? right : left;
  }
};

// The last index of the largest value; NaN counts as the largest. right stands behind left, so that a tie takes right;
// except for the identity, whose index lies before all.
template <class A, class I = int64_t>
struct LastMax {
  using Value = Indexed<A, I>;
  static constexpr bool commutes = false;
  static HOST_DEVICE Value identity() { return {Max<A>::identity(), I(-1)}; }
  static HOST_DEVICE Value combine(Value left, Value right) {
    const bool larger = right.value >= left.value || is_nan(right.value);
    return larger && right.index > left.index && !(is_nan(left.value) && !is_nan(right.value)) ? right : left;
  }
};

// log(exp(left) + exp(right)): commutes, because the larger operand is found first.
template <class A>
struct LogAdd {
  using Value = A;
  static constexpr bool commutes = true;
  static HOST_DEVICE A identity() { return kLeast<A>; }
  static HOST_DEVICE A combine(A left, A right) { return log_add(left, right); }
};

// The step h -> gate h + token.
template <class A>
struct Step {
  A gate, token;
};

// One step and then another. No value can serve as the identity for a missing operand: (1, -0.0) and then (inf, t)
// would be NaN. A fold selects instead.
template <class A>
struct Linear {
  using Value = Step<A>;
  static constexpr bool commutes = false;
  static HOST_DEVICE Value combine(Value left, Value right) {
    return {right.gate * left.gate, right.gate * left.token + right.token};
  }
  static HOST_DEVICE A apply(Value step, A h) { return step.gate * h + step.token; }
};

}  // namespace torch_reductions
