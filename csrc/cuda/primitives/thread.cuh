// What one thread does: extracting elements from loaded words, and balanced trees over registers.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "log_add.cuh"
#include "memory.cuh"
#include "pair.cuh"

namespace torch_reductions::cuda {

__host__ __device__ constexpr int log2_of(int n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

// The pointer, opaque to the compiler: otherwise it would add each constant to the part that is uniform in a block, and
// the rest to each sum.
template <class T>
__device__ __forceinline__ T* opaque(T* p) {
#ifndef CUDA_ON_CPU
  asm volatile("" : "+l"(p));
#endif
  return p;
}

// The same of a number.
__device__ __forceinline__ int opaque(int n) {
#ifndef CUDA_ON_CPU
  asm volatile("" : "+r"(n));
#endif
  return n;
}

// The highest set bit of n, which is not 0.
__device__ __forceinline__ int highest_bit(uint64_t n) {
#ifdef CUDA_ON_CPU
  return 63 - __builtin_clzll(n);
#else
  return 63 - __clzll(int64_t(n));
#endif
}

// f(0) ... f(N - 1), each called with a compile-time constant: unrolled before registers are allocated, so that arrays
// indexed by it stay in registers.
template <int N, class F>
__device__ __forceinline__ void static_for(F f) {
  if constexpr (N > 0) {
    static_for<N - 1>(f);
    f(std::integral_constant<int, N - 1>{});
  }
}

// f(k, i) for each digit k of n, from the highest one below `Levels` down, as a constant: the block of 2^k elements
// that it stands for begins at i, the first one at `first`.
template <int Levels, class F>
__device__ __forceinline__ void for_each_digit(int n, F f, int first = 0) {
  if constexpr (Levels > 0) {
    constexpr int k = Levels - 1;
    if (n >> k & 1) {
      f(std::integral_constant<int, k>{}, first);
      first += 1 << k;
    }
    for_each_digit<k>(n, f, first);
  }
}

// The balanced tree over N = 2^k values.
template <class Op, int N>
__device__ __forceinline__ typename Op::Value tree(const typename Op::Value* x) {
  if constexpr (N == 1) return x[0];
  else return Op::combine(tree<Op, N / 2>(x), tree<Op, N / 2>(x + N / 2));
}

// The binary counter, of V columns at once: value number n arrives, merges with the waiting ones while the bit is set,
// then waits; after n values wait[k] holds digit k of n wherever bit k is set. Recursion, because a loop with a break
// would put wait[] into local memory.
template <class Op, int V, int Levels, int Level = 0>
__device__ __forceinline__ void push(typename Op::Value (&wait)[Levels][V], typename Op::Value (&v)[V], int n) {
  if constexpr (Level < Levels) {
    if (n >> Level & 1) {
#pragma unroll
      for (int e = 0; e < V; e++) v[e] = Op::combine(wait[Level][e], v[e]);
      push<Op, V, Levels, Level + 1>(wait, v, n);
    } else {
#pragma unroll
      for (int e = 0; e < V; e++) wait[Level][e] = v[e];
    }
  }
}

// The type in registers: float for the half types, 32-bit integers for the small ones.
template <class T>
using Native = std::conditional_t<std::is_integral_v<T> || kIsBool<T>,
                                  std::conditional_t<sizeof(T) == 8, int64_t, int32_t>, Accumulator<T>>;

// Element i of the words, i a constant after unrolling.
template <class T>
__device__ __forceinline__ Native<T> element(const uint32_t* words, int i) {
  if constexpr (std::is_same_v<T, float>) return __uint_as_float(words[i]);
  else if constexpr (std::is_same_v<T, double>) return __hiloint2double(int(words[2 * i + 1]), int(words[2 * i]));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return __uint_as_float(i & 1 ? words[i / 2] & 0xffff0000u : words[i / 2] << 16);
  else if constexpr (std::is_same_v<T, Half>) return half_to_float(uint16_t(words[i / 2] >> 16 * (i & 1)));
  else if constexpr (kIsBool<T>) return (words[i / 4] & 0xffu << 8 * (i & 3)) != 0;
  else if constexpr (sizeof(T) == 8) return int64_t(uint64_t(words[2 * i + 1]) << 32 | words[2 * i]);
  else if constexpr (sizeof(T) == 4) return int32_t(words[i]);
  else if constexpr (sizeof(T) == 2) return T(words[i / 2] >> 16 * (i & 1));
  else return T(words[i / 4] >> 8 * (i & 3));
}

// words[0 .. 3] = the 16 bytes that begin `bytes` < 16 into the 32 bytes of words. Sub: are elements smaller than a
// word?
template <bool Sub>
__device__ __forceinline__ void realign(uint32_t (&words)[8], int bytes) {
#pragma unroll
  for (int i = 0; i < 6; i++) words[i] = bytes & 8 ? words[i + 2] : words[i];
#pragma unroll
  for (int i = 0; i < 5; i++) words[i] = bytes & 4 ? words[i + 1] : words[i];
  if constexpr (Sub) {
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = __funnelshift_r(words[i], words[i + 1], (bytes & 3) * 8);
  }
}

}  // namespace torch_reductions::cuda
