// Two neighbouring lines as one: a lane reads and stores two elements of 2 bytes at once, and counts with two numbers
// that never meet.
#pragma once
#include "../../primitives/thread.cuh"

namespace torch_reductions::cuda {

template <class A>
struct alignas(2 * sizeof(A)) Two {
  A first, second;
};
template <class A>
HOST_DEVICE Two<A> operator*(Two<A> x, Two<A> y) {
  return {x.first * y.first, x.second * y.second};
}
template <class A>
HOST_DEVICE Two<A> operator+(Two<A> x, Two<A> y) {
  return {x.first + y.first, x.second + y.second};
}

// What a lane counts with, of the elements that it reads at once.
template <class E>
struct NumberOf {
  using Type = Native<E>;
  static __device__ __forceinline__ Type of(const uint32_t* words, int i) { return element<E>(words, i); }
};
template <class T>
struct NumberOf<Two<T>> {
  using Type = Two<Native<T>>;
  static __device__ __forceinline__ Type of(const uint32_t* words, int i) {
    return {element<T>(words, 2 * i), element<T>(words, 2 * i + 1)};
  }
};

}  // namespace torch_reductions::cuda
