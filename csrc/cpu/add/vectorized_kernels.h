// The vector code of `vectorized`: loops that the compiler vectorizes. Each vectorized_*.cpp compiles it for one
// processor.
#pragma once
#include <cstddef>
#include <utility>

#include "../vector.h"
#include "elements.h"
#include "vectorized.h"

namespace torch_reductions::cpu::add {
namespace {

constexpr int64_t kBuffer = 512;  // elements of half types that are widened at once

// Strides of 0 and 1 are passed as constants.
template <int64_t Stride>
using Constant = std::integral_constant<int64_t, Stride>;

template <bool Or, class S, class T, class A, class P, class Q>
ALWAYS_INLINE void add_elements(const S* a, P a_stride, const S* b, Q b_stride, A alpha, T* __restrict output,
                                int64_t n) {
  if constexpr (Or) {  // bool: any nonzero byte is true; -alpha is a mask of all ones or all zeros
    for (int64_t i = 0; i < n; i++) output[i] = (a[i * a_stride] | (b[i * b_stride] & A(-alpha))) != 0;
  } else if (alpha == A(1)) {  // avoids fma, which is a function call on a processor without the instruction
    for (int64_t i = 0; i < n; i++) output[i] = narrow<T>(A(widen(a[i * a_stride]) + widen(b[i * b_stride])));
  } else {
    for (int64_t i = 0; i < n; i++)
      output[i] = narrow<T>(sum_of(widen(a[i * a_stride]), alpha, widen(b[i * b_stride])));
  }
}

// a + alpha b of vectors, with one rounding.
template <class A>
ALWAYS_INLINE Vector<A> sum_of_vectors(Vector<A> a, Vector<A> alpha, Vector<A> b) {
  if constexpr (std::is_floating_point_v<A>) return fused(alpha, b, a);
  else return a + alpha * b;
}

// Stores past the caches, where the processor can: a result that is larger than the caches would evict the operands,
// and its cache lines would be read before they are written.
template <class A>
ALWAYS_INLINE void stream(A* p, Vector<A> v) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), __m512i(v));
#elif defined(__AVX__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), __m256i(v));
#else
  store(p, v);
#endif
}

// Adds contiguous operands in groups of vectors, loading a group of each before it is used. Returns the number of
// elements done; less than a group is left.
template <bool Or, bool Scaled, bool Streaming, class A>
ALWAYS_INLINE int64_t add_groups(const A* a, const A* b, A alpha, A* output, int64_t n) {
  constexpr int W = kLanes<A>, kGroup = 4;
  const Vector<A> factor = alpha - Vector<A>{};
  int64_t i = 0;
  for (; i + kGroup * W <= n; i += kGroup * W) {
    Vector<A> x[kGroup], y[kGroup];
    for (int v = 0; v < kGroup; v++) x[v] = load(a + i + v * W);
    for (int v = 0; v < kGroup; v++) y[v] = load(b + i + v * W);
    for (int v = 0; v < kGroup; v++) {
      if constexpr (Or) {
        const Vector<A> any = x[v] | (y[v] & -factor), one = splat(A(1));
        x[v] = any < one ? any : one;
      } else if constexpr (Scaled) x[v] = sum_of_vectors<A>(x[v], factor, y[v]);
      else x[v] += y[v];
    }
    for (int v = 0; v < kGroup; v++) {
      if constexpr (Streaming) stream(output + i + v * W, x[v]);
      else store(output + i + v * W, x[v]);
    }
  }
#ifdef __AVX__
  if constexpr (Streaming) _mm_sfence();  // orders these stores before later ones
#endif
  return i;
}

template <bool Or, class A>
ALWAYS_INLINE int64_t add_groups(const A* a, const A* b, A alpha, A* output, int64_t n, bool streaming) {
  streaming = streaming && reinterpret_cast<uintptr_t>(output) % kVectorBytes == 0;
  const bool scaled = alpha != A(1);
  if (streaming && scaled) return add_groups<Or, true, true>(a, b, alpha, output, n);
  if (streaming) return add_groups<Or, false, true>(a, b, alpha, output, n);
  return scaled ? add_groups<Or, true, false>(a, b, alpha, output, n)
                : add_groups<Or, false, false>(a, b, alpha, output, n);
}

#ifdef __F16C__
// Adds contiguous halves in whole vectors, converted by the processor. Returns the number of elements done.
ALWAYS_INLINE int64_t add_halves(const Half* a, const Half* b, float alpha, Half* output, int64_t n) {
  constexpr int W = kLanes<float>;
  const Vector<float> factor = splat(alpha);
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    store_halves(output + i, sum_of_vectors<float>(load_halves(a + i), factor, load_halves(b + i)));
  }
  return i;
}
#endif

template <class T, bool Or>
void add_run(const AddRun& run, double factor) {
  using A = AddType<T>;
  const A alpha = factor_of<A>(factor);
  T* const output = static_cast<T*>(run.output);
  if constexpr (sizeof(T) != sizeof(A)) {  // half types
    const T *input = static_cast<const T*>(run.input), *other = static_cast<const T*>(run.other);
    A a[kBuffer], b[kBuffer], sums[kBuffer];
    int64_t i = 0;
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (run.input_stride == 1 && run.other_stride == 1)
        return add_elements<Or>(input, Constant<1>(), other, Constant<1>(), alpha, output, run.count);
    }
#ifdef __F16C__
    if constexpr (std::is_same_v<T, Half>) {
      if (run.input_stride == 1 && run.other_stride == 1) i = add_halves(input, other, alpha, output, run.count);
    }
#endif
    for (; i < run.count; i += kBuffer) {
      const int64_t n = run.count - i < kBuffer ? run.count - i : kBuffer;
      widen(input + i * run.input_stride, run.input_stride, n, a);
      widen(other + i * run.other_stride, run.other_stride, n, b);
      add_elements<Or>(a, Constant<1>(), b, Constant<1>(), alpha, sums, n);
      narrow(sums, n, output + i, 1);
    }
  } else {
    const A *a = static_cast<const A*>(run.input), *b = static_cast<const A*>(run.other);
    const int64_t p = run.input_stride, q = run.other_stride, n = run.count;
    if (p == 1 && q == 1) {
      const int64_t done = add_groups<Or>(a, b, alpha, reinterpret_cast<A*>(output), n, run.streaming);
      add_elements<Or>(a + done, Constant<1>(), b + done, Constant<1>(), alpha, output + done, n - done);
    } else if (p == 1 && q == 0) add_elements<Or>(a, Constant<1>(), b, Constant<0>(), alpha, output, n);
    else if (p == 0 && q == 1) add_elements<Or>(a, Constant<0>(), b, Constant<1>(), alpha, output, n);
    else add_elements<Or>(a, p, b, q, alpha, output, n);
  }
}

constexpr AddKernels make_add_kernels() {
  AddKernels kernels{};
  for (int dtype = 0; dtype < kDtypes; dtype++) {
    with_storage(Dtype(dtype), [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_same_v<T, uint8_t>) {
        kernels.add[dtype] = Dtype(dtype) == Dtype::boolean ? add_run<T, true> : add_run<T, false>;
      } else {
        kernels.add[dtype] = add_run<T, false>;
      }
    });
  }
  return kernels;
}

}  // namespace
}  // namespace torch_reductions::cpu::add
