// The totals of chunks, or of parts, that wait while the next one is multiplied, in shared memory or in the L2: each
// thread's own, as vectors that stand `Threads` apart. A total stands left of what is added to it.
#pragma once
#include "../primitives/memory.cuh"

namespace torch_reductions::cuda::matmul {

// The elements of arrays of arrays, one after another.
template <class T, size_t N>
__device__ __forceinline__ auto& flat(T (&array)[N]) {
  if constexpr (std::is_array_v<T>)
    return flat(reinterpret_cast<std::remove_extent_t<T>(&)[N * std::extent_v<T>]>(array));
  else return array;
}

// Float: the sums, of any type, are the bits of floats.
template <bool Float, class P>
__device__ __forceinline__ P sum_of(P total, P sum) {
  if constexpr (Float && std::is_same_v<P, uint32_t>)
    return __float_as_uint(__uint_as_float(total) + __uint_as_float(sum));
  else return total + sum;
}

// total + sums. AtOnce: how many loads may be in flight, where registers do not hold all.
template <int Threads, int AtOnce, bool Float = false, class P, size_t N, int V>
__device__ __forceinline__ void add_totals(P (&sums)[N], const AlignedVector<P, V>* totals) {
#pragma unroll
  for (int i = 0; i < int(N) / V; i++) {
    if (AtOnce < int(N) / V && i % AtOnce == 0) __syncwarp();
    const AlignedVector<P, V> total = totals[i * Threads];
#pragma unroll
    for (int v = 0; v < V; v++) sums[i * V + v] = sum_of<Float>(total.element[v], sums[i * V + v]);
  }
}

template <int Threads, class P, size_t N, int V>
__device__ __forceinline__ void keep_totals(const P (&sums)[N], AlignedVector<P, V>* totals) {
#pragma unroll
  for (int i = 0; i < int(N) / V; i++) {
    AlignedVector<P, V> total;
#pragma unroll
    for (int v = 0; v < V; v++) total.element[v] = sums[i * V + v];
    totals[i * Threads] = total;
  }
}

// Behind a chain of k, whose sums the next chain's will be added to.
template <int Threads, bool Float = false, class P, size_t N, int V>
__device__ __forceinline__ void fold_chain(P (&sums)[N], AlignedVector<P, V>* totals, bool first, bool last) {
  if (!first) add_totals<Threads, int(N), Float>(sums, totals);
  if (!last) keep_totals<Threads>(sums, totals);
}

}  // namespace torch_reductions::cuda::matmul
