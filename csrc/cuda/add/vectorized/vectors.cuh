// Vectors of the output: 16 bytes where the operands allow it, single elements elsewhere.
#pragma once
#include <algorithm>

#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "../elements.cuh"

namespace torch_reductions::cuda {

inline constexpr unsigned kVectorThreads = 128;
inline constexpr int kVectors = 4;  // of a thread, all of whose loads are on their way at once

template <class T>
inline constexpr int kElements = 16 / int(sizeof(T));

template <class T, int E>
struct alignas(sizeof(T) * E) Vector {
  T elements[E];
};

// How a thread comes by its elements of an operand.
enum class Way : int { vector, same, apart };

// The ways of both operands, and the sizes of the dims as divisors where 31 bits count the elements.
struct Walk {
  Way input, other;
  bool small;
  Divisor sizes[kAddDims];

  __device__ __forceinline__ Places places(const AddArgs& args, int64_t i) const {
    if (!small) return places_of(args, i);
    Places at{0, 0};
    unsigned rest = unsigned(i);
    for (int d = 0; d < args.dims - 1; d++) {
      const unsigned above = sizes[d].quotient(rest), here = rest - above * sizes[d].divisor;
      at.input += here * args.input_strides[d], at.other += here * args.other_strides[d];
      rest = above;
    }
    return {at.input + rest * args.input_strides[args.dims - 1], at.other + rest * args.other_strides[args.dims - 1]};
  }
};

template <class T, int E>
__device__ __forceinline__ Vector<T, E> load_vector(const T* p, Way way, int64_t stride) {
  Vector<T, E> v;
  if (way == Way::vector) {
    v = *reinterpret_cast<const Vector<T, E>*>(p);
  } else if (way == Way::same) {
    const T x = *p;
#pragma unroll
    for (int e = 0; e < E; e++) v.elements[e] = x;
  } else {
#pragma unroll
    for (int e = 0; e < E; e++) v.elements[e] = p[e * stride];
  }
  return v;
}

// 16 bytes that are read once.
template <class T>
__device__ __forceinline__ Vector<T, kElements<T>> load_flat(const T* p) {
  uint32_t words[4];
  load16(words, p, evict_first());
  Vector<T, kElements<T>> v;
  memcpy(&v, words, 16);
  return v;
}

// Flat: both operands lie as the output does. What is left behind the last whole vector is the first block's.
template <class T, int E, bool Flat>
__global__ void __launch_bounds__(kVectorThreads)
    add_vectors(const __grid_constant__ AddArgs args, const __grid_constant__ Walk walk,
                const __grid_constant__ Adder<T> add) {
  const T *input = static_cast<const T*>(args.input), *other = static_cast<const T*>(args.other);
  T* output = static_cast<T*>(args.output);
  const int64_t whole = args.count / E, first = int64_t(blockIdx.x) * kVectorThreads * kVectors + threadIdx.x;
  Vector<T, E> a[kVectors], b[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; v++) {
    const int64_t i = (first + v * int(kVectorThreads)) * E;
    if (i >= whole * E) continue;
    if constexpr (Flat) {
      a[v] = load_flat(input + i), b[v] = load_flat(other + i);
    } else {
      const Places at = walk.places(args, i);
      a[v] = load_vector<T, E>(input + at.input, walk.input, args.input_strides[0]);
      b[v] = load_vector<T, E>(other + at.other, walk.other, args.other_strides[0]);
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; v++) {
    const int64_t i = (first + v * int(kVectorThreads)) * E;
    if (i >= whole * E) continue;
#pragma unroll
    for (int e = 0; e < E; e++) a[v].elements[e] = add(a[v].elements[e], b[v].elements[e]);
    *reinterpret_cast<Vector<T, E>*>(output + i) = a[v];
  }
  if (blockIdx.x == 0 && threadIdx.x < args.count - whole * E) {  // only of a single dim
    const int64_t i = whole * E + threadIdx.x;
    output[i] = add(input[i * args.input_strides[0]], other[i * args.other_strides[0]]);
  }
}

// Whether 16-byte accesses fit an operand wherever a vector of the output begins.
template <class T>
Way way_of(const AddArgs& args, const void* data, const int64_t (&strides)[kAddDims]) {
  if (strides[0] == 0) return Way::same;
  bool aligned = strides[0] == 1 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
  for (int d = 1; d < args.dims; d++) aligned = aligned && strides[d] % kElements<T> == 0;
  return aligned ? Way::vector : Way::apart;
}

template <class T>
void add_by_vectors(const AddArgs& args, Context& context) {
  Walk walk{way_of<T>(args, args.input, args.input_strides),
            way_of<T>(args, args.other, args.other_strides),
            args.count <= INT32_MAX,
            {}};
  for (int d = 0; walk.small && d < args.dims; d++) walk.sizes[d] = Divisor(args.sizes[d]);
  const auto start = [&](auto kernel, int elements) {
    const int64_t vectors = args.count / elements;
    launch(kernel, std::max<int64_t>(ceil_div(vectors, kVectors * kVectorThreads), 1), kVectorThreads, 0,
           context.stream, args, walk, Adder<T>(args));
  };
  constexpr int E = kElements<T>;
  if (args.dims > 1 && args.sizes[0] % E != 0) {  // a vector would go beyond its row
    walk.input = walk.other = Way::apart;
    start(add_vectors<T, 1, false>, 1);
  } else if (args.dims == 1 && walk.input == Way::vector && walk.other == Way::vector) {
    start(add_vectors<T, E, true>, E);
  } else {
    start(add_vectors<T, E, false>, E);
  }
}

}  // namespace torch_reductions::cuda
