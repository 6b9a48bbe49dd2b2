// Vectors of the output: 16 bytes where the operands allow it, single elements elsewhere.
#pragma once
#include <algorithm>

#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "../elements.cuh"

namespace torch_reductions::cuda::add {

inline constexpr unsigned kVectorThreads = 256;
inline constexpr int kVectors = 4;  // per thread, all of whose loads are in flight at once
inline constexpr unsigned kRowThreads = 128;
inline constexpr int kRowElements = 8;

template <class T>
inline constexpr int kElements = 16 / int(sizeof(T));

// How a thread loads its elements of an operand.
enum class Load { vector, broadcast, strided };

// How each operand is loaded, and the sizes of the dims as divisors where 31 bits count the elements.
struct Walk {
  Load input, other;
  bool small;
  FastDiv sizes[kAddDims];

  __device__ __forceinline__ Offsets offsets(const AddArgs& args, int64_t i) const {
    if (!small) return offsets_of(args, i);
    Offsets at{0, 0};
    unsigned rest = unsigned(i);
    for (int d = 0; d < args.dims - 1; d++) {
      const unsigned above = sizes[d].div(rest), here = rest - above * sizes[d].divisor;
      at.input += here * args.input_strides[d], at.other += here * args.other_strides[d];
      rest = above;
    }
    return {at.input + rest * args.input_strides[args.dims - 1], at.other + rest * args.other_strides[args.dims - 1]};
  }
};

template <class T, int E>
__device__ __forceinline__ AlignedVector<T, E> load_vector(const T* p, Load load, int64_t stride) {
  AlignedVector<T, E> v;
  if (load == Load::vector) {
    v = *reinterpret_cast<const AlignedVector<T, E>*>(p);
  } else if (load == Load::broadcast) {
    const T x = *p;
#pragma unroll
    for (int e = 0; e < E; e++) v.element[e] = x;
  } else {
#pragma unroll
    for (int e = 0; e < E; e++) v.element[e] = p[e * stride];
  }
  return v;
}

// Both operands lie as the output does: one vector per thread, with the default policy. On an H200 several vectors per
// thread or evict_first are 2 to 8% slower where two tensors are read at once.
template <class T>
__global__ void __launch_bounds__(kVectorThreads)
    add_flat(const T* input, const T* other, T* output, int64_t count, const __grid_constant__ Adder<T> add) {
  constexpr int E = kElements<T>;
  int64_t i = (int64_t(blockIdx.x) * kVectorThreads + threadIdx.x) * E;
  if (i + E <= count) {
    auto a = *reinterpret_cast<const AlignedVector<T, E>*>(input + i);
    const auto b = *reinterpret_cast<const AlignedVector<T, E>*>(other + i);
#pragma unroll
    for (int e = 0; e < E; e++) a.element[e] = add(a.element[e], b.element[e]);
    *reinterpret_cast<AlignedVector<T, E>*>(output + i) = a;
  } else {
    for (; i < count; i++) output[i] = add(input[i], other[i]);
  }
}

// The first block adds what is left after the last whole vector.
template <class T, int E>
__global__ void __launch_bounds__(kVectorThreads)
    add_vectors(const __grid_constant__ AddArgs args, const __grid_constant__ Walk walk,
                const __grid_constant__ Adder<T> add) {
  const T *input = static_cast<const T*>(args.input), *other = static_cast<const T*>(args.other);
  T* output = static_cast<T*>(args.output);
  const int64_t whole = args.count / E, first = int64_t(blockIdx.x) * kVectorThreads * kVectors + threadIdx.x;
  AlignedVector<T, E> a[kVectors], b[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; v++) {
    const int64_t i = (first + v * int(kVectorThreads)) * E;
    if (i >= whole * E) continue;
    const Offsets at = walk.offsets(args, i);
    a[v] = load_vector<T, E>(input + at.input, walk.input, args.input_strides[0]);
    b[v] = load_vector<T, E>(other + at.other, walk.other, args.other_strides[0]);
  }
#pragma unroll
  for (int v = 0; v < kVectors; v++) {
    const int64_t i = (first + v * int(kVectorThreads)) * E;
    if (i >= whole * E) continue;
#pragma unroll
    for (int e = 0; e < E; e++) a[v].element[e] = add(a[v].element[e], b[v].element[e]);
    *reinterpret_cast<AlignedVector<T, E>*>(output + i) = a[v];
  }
  if (blockIdx.x == 0 && threadIdx.x < args.count - whole * E) {  // only of a single dim
    const int64_t i = whole * E + threadIdx.x;
    output[i] = add(input[i * args.input_strides[0]], other[i * args.other_strides[0]]);
  }
}

// Rows of elements that are read one by one, where 16-byte accesses don't fit: neighbouring lanes take neighbours, and
// all of a thread's loads are in flight at once.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    add_rows(const __grid_constant__ AddArgs args, const __grid_constant__ Walk walk,
             const __grid_constant__ FastDiv parts, const __grid_constant__ Adder<T> add) {
  const unsigned row = parts.div(blockIdx.x);
  const int64_t width = args.sizes[0], begin = row * width;
  const int64_t first = int64_t(blockIdx.x - row * parts.divisor) * (kRowThreads * kRowElements) + threadIdx.x;
  const Offsets at = walk.offsets(args, begin);
  const T* const input = static_cast<const T*>(args.input) + at.input + first * args.input_strides[0];
  const T* const other = static_cast<const T*>(args.other) + at.other + first * args.other_strides[0];
  T* const output = static_cast<T*>(args.output) + begin + first;
  const int64_t input_step = args.input_strides[0] * kRowThreads, other_step = args.other_strides[0] * kRowThreads;
  T a[kRowElements], b[kRowElements];
#pragma unroll
  for (int e = 0; e < kRowElements; e++)
    if (first + e * int(kRowThreads) < width) a[e] = input[e * input_step], b[e] = other[e * other_step];
#pragma unroll
  for (int e = 0; e < kRowElements; e++)
    if (first + e * int(kRowThreads) < width) output[e * int(kRowThreads)] = add(a[e], b[e]);
}

// Whether 16-byte accesses fit an operand wherever a vector of the output begins.
template <class T>
Load load_of(const AddArgs& args, const void* data, const int64_t (&strides)[kAddDims]) {
  if (strides[0] == 0) return Load::broadcast;
  bool aligned = strides[0] == 1 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
  for (int d = 1; d < args.dims; d++) aligned = aligned && strides[d] % kElements<T> == 0;
  return aligned ? Load::vector : Load::strided;
}

template <class T>
void add_by_vectors(const AddArgs& args, Context& context) {
  Walk walk{load_of<T>(args, args.input, args.input_strides),
            load_of<T>(args, args.other, args.other_strides),
            args.count <= INT32_MAX,
            {}};
  for (int d = 0; walk.small && d < args.dims; d++) walk.sizes[d] = FastDiv(args.sizes[d]);
  const auto start = [&](auto kernel, int elements) {
    const int64_t vectors = args.count / elements;
    launch(kernel, std::max<int64_t>(ceil_div(vectors, kVectors * kVectorThreads), 1), kVectorThreads, 0,
           context.stream, args, walk, Adder<T>(args));
  };
  constexpr int E = kElements<T>;
  const bool whole = args.dims == 1 || args.sizes[0] % E == 0;  // or a vector would go beyond its row
  if (!whole) walk.input = walk.other = Load::strided;
  const int64_t rows = args.count / args.sizes[0], parts = ceil_div(args.sizes[0], kRowThreads * kRowElements);
  if ((walk.input == Load::strided || walk.other == Load::strided) && args.sizes[0] >= kRowThreads &&
      rows <= INT32_MAX / parts) {
    launch(add_rows<T>, rows * parts, kRowThreads, 0, context.stream, args, walk, FastDiv(parts), Adder<T>(args));
  } else if (!whole) {
    start(add_vectors<T, 1>, 1);
  } else if (args.dims == 1 && walk.input == Load::vector && walk.other == Load::vector) {
    launch(add_flat<T>, std::max<int64_t>(ceil_div(args.count, kVectorThreads * E), 1), kVectorThreads, 0,
           context.stream, static_cast<const T*>(args.input), static_cast<const T*>(args.other),
           static_cast<T*>(args.output), args.count, Adder<T>(args));
  } else {
    start(add_vectors<T, E>, E);
  }
}

}  // namespace torch_reductions::cuda::add
