// GCC's vectors of the processor that a file is compiled for, and the operators that serve scalars and vectors alike.
//
// All of it has internal linkage and calls nothing of std::, so that the linker cannot mix the processors up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "../common/log_add.h"
#include "convert.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace torch_reductions::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class A>
struct VectorOf {
  typedef A Type __attribute__((vector_size(kVectorBytes)));
};
template <class A>
using Vector = typename VectorOf<A>::Type;
template <class A>
using Mask = Vector<std::conditional_t<sizeof(A) == 4, int32_t, int64_t>>;
template <class A>
constexpr int kLanes = kVectorBytes / int(sizeof(A));

constexpr int log2(int n) { return n == 1 ? 0 : 1 + log2(n / 2); }

template <class A>
ALWAYS_INLINE Vector<A> load(const A* p) {
  Vector<A> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class A>
ALWAYS_INLINE void store(A* p, Vector<A> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

template <class A>
ALWAYS_INLINE Vector<A> splat(A x) {
  return x - Vector<A>{};  // x - 0 is x, -0 too
}

// ---------------------------------------------------------------- operators: T is an A or a vector of them

template <class A>
struct SumOf {
  static constexpr A identity = std::is_floating_point_v<A> ? A(-0.0) : A(0);
  template <class T>
  static ALWAYS_INLINE T combine(T left, T right) {
    return left + right;
  }
};

template <class A>
struct ProdOf {
  static constexpr A identity = 1;
  template <class T>
  static ALWAYS_INLINE T combine(T left, T right) {
    return left * right;
  }
};

template <class A>
struct LogAddOf {
  static constexpr A identity = -A(__builtin_inf());
  template <class T>
  static ALWAYS_INLINE T combine(T left, T right) {
    return log_add(left, right);
  }
};

// ---------------------------------------------------------------- memory

// The elements [k, k + n) of a row as contiguous accumulators: the input itself where it is that already.
template <class A, class S>
ALWAYS_INLINE const A* contiguous(const S* row, int64_t stride, int64_t k, int64_t n, A* buffer) {
  if constexpr (std::is_same_v<A, S>) {
    if (stride == 1) return row + k;
  }
  widen(row + k * stride, stride, n, buffer);
  return buffer;
}

// The first column of each vector of a strip: the last vector overlaps the one before, with the same bits.
template <class A>
ALWAYS_INLINE int64_t column(int64_t i, int64_t columns) {
  constexpr int W = kLanes<A>;
  return columns < W ? 0 : i + W <= columns ? i : columns - W;
}

// n contiguous accumulators as storage, `stride` apart.
template <class A, class S>
__attribute__((noinline)) void narrow(const A* input, int64_t n, S* output, int64_t stride) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; i++) output[i] = narrow<S>(input[i]);
  } else if (stride == -1) {
    for (int64_t i = 0; i < n; i++) output[-i] = narrow<S>(input[i]);
  } else {
    for (int64_t i = 0; i < n; i++) output[i * stride] = narrow<S>(input[i]);
  }
}

ALWAYS_INLINE void prefetch(const void* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(p) + i, 0, 2);
}

}  // namespace
}  // namespace torch_reductions::cpu
