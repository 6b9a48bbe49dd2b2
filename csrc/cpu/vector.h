// GCC's vectors of the processor that a file is compiled for, and the operators that serve scalars and vectors alike.
//
// All of it has internal linkage and calls nothing of std::, so that the linker cannot mix the processors up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

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

// Past the caches, where the processor has such a store: else a line would be read before it is written.
ALWAYS_INLINE void stream(void* p, Vector<int64_t> v) {
#if defined(__AVX512F__)
  __builtin_ia32_movntdq512(static_cast<Vector<long long>*>(p), Vector<long long>(v));
#elif defined(__AVX2__)
  __builtin_ia32_movntdq256(static_cast<Vector<long long>*>(p), Vector<long long>(v));
#elif defined(__SSE2__)
  __builtin_ia32_movntdq(static_cast<Vector<long long>*>(p), Vector<long long>(v));
#else
  __builtin_memcpy(p, &v, sizeof v);
#endif
}

// Streamed stores are not ordered with those that tell another thread of them.
ALWAYS_INLINE void finish_streams() {
#ifdef __SSE2__
  __builtin_ia32_sfence();
#endif
}

inline void stream_bytes(void* to, const void* from, int64_t bytes) {
  char* output = static_cast<char*>(to);
  const char* input = static_cast<const char*>(from);
  const int64_t misaligned = reinterpret_cast<uintptr_t>(to) % kVectorBytes;
  const int64_t head = misaligned == 0 ? 0 : kVectorBytes - misaligned < bytes ? kVectorBytes - misaligned : bytes;
  __builtin_memcpy(output, input, head);
  int64_t i = head;
  for (; i + kVectorBytes <= bytes; i += kVectorBytes) {
    Vector<int64_t> v;
    __builtin_memcpy(&v, input + i, sizeof v);
    stream(output + i, v);
  }
  __builtin_memcpy(output + i, input + i, bytes - i);
}

constexpr int kNarrowed = 1024;  // at most, in one call of narrow

// n contiguous accumulators as storage, `stride` apart; `far` sends them past the caches.
template <class A, class S>
__attribute__((noinline)) void narrow(const A* input, int64_t n, S* output, int64_t stride, bool far) {
  if (stride == 1 && far) {
    if constexpr (std::is_same_v<A, S>) return stream_bytes(output, input, n * sizeof(S));
    S narrowed[kNarrowed];
    for (int64_t i = 0; i < n; i++) narrowed[i] = narrow<S>(input[i]);
    stream_bytes(output, narrowed, n * sizeof(S));
  } else if (stride == 1) {
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
