// Vectors of 16 bytes of the output. An operand's elements are loaded as such a vector too where its memory allows it,
// one by one elsewhere, whatever the length of its rows.
#pragma once

#include "../../../common/ceil_div.h"
#include "../../primitives/launch.h"
#include "../elements.cuh"

namespace torch_reductions::cuda::add {

inline constexpr unsigned kVectorThreads = 256;
inline constexpr int kVectors = 4;  // per thread, all of whose loads are in flight at once

template <class T>
inline constexpr int kElements = 16 / int(sizeof(T));

// How a thread loads its elements of an operand.
enum class Load { vector, broadcast, strided };

// How each operand is loaded, and the sizes of the dims as divisors where 31 bits count the elements.
struct Walk {
  Load input, other;
  bool small;
  FastDiv sizes[kAddDims];

  // The elements until the row ends.
  __device__ __forceinline__ int left(const AddArgs& args, int64_t i) const {
    const int64_t width = args.sizes[0], row = small ? sizes[0].div(unsigned(i)) : i / width;
    return int(min((row + 1) * width - i, int64_t(INT32_MAX)));
  }
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

// kStrided: whether elements may be loaded one by one. left: those until the operand's row ends; the others begin at
// `next`.
template <class T, int E, bool kStrided>
__device__ __forceinline__ AlignedVector<T, E> load_vector(const T* p, const T* next, int left, Load load,
                                                           int64_t stride) {
  AlignedVector<T, E> v;
  if (load == Load::vector) {
    v = *reinterpret_cast<const AlignedVector<T, E>*>(p);
  } else if (!kStrided || load == Load::broadcast) {
    const T x = *p;
#pragma unroll
    for (int e = 0; e < E; e++) v.element[e] = x;
  } else {
    next -= left * stride;
#pragma unroll
    for (int e = 0; e < E; e++) v.element[e] = (e < left ? p : next)[e * stride];
  }
  return v;
}

// Both operands lie as the output does: one vector per thread, with the default policy, and behind the vectors one of
// the last elements. On an H200 several vectors per thread or evict_first are 2 to 8% slower where two tensors are read
// at once.
template <class T>
__global__ void __launch_bounds__(kVectorThreads)
    add_flat(const T* input, const T* other, T* output, int64_t count, const __grid_constant__ Adder<T> add) {
  constexpr int E = kElements<T>;
  const int64_t thread = int64_t(blockIdx.x) * kVectorThreads + threadIdx.x, whole = count / E;
  if (thread < whole) {
    using Word = std::conditional_t<sizeof(T) == 1, uint32_t, T>;  // bytes are added four at once
    using Vector = AlignedVector<Word, 16 / int(sizeof(Word))>;
    auto a = reinterpret_cast<const Vector*>(input)[thread];
    const auto b = reinterpret_cast<const Vector*>(other)[thread];
#pragma unroll
    for (int e = 0; e < 16 / int(sizeof(Word)); e++) {
      if constexpr (sizeof(T) == 1) a.element[e] = add.of_bytes(a.element[e], b.element[e]);
      else a.element[e] = add(a.element[e], b.element[e]);
    }
    reinterpret_cast<Vector*>(output)[thread] = a;
  } else {
    const int64_t i = whole * E + (thread - whole);
    if (i < count) output[i] = add(input[i], other[i]);
  }
}

// The first block adds what is left after the last whole vector. kEnds: whether rows, of at least E elements, may end
// inside vectors; then a thread has one vector, of as many loads as elements.
template <class T, int E, bool kEnds>
__global__ void __launch_bounds__(kVectorThreads)
    add_vectors(const __grid_constant__ AddArgs args, const __grid_constant__ Walk walk,
                const __grid_constant__ Adder<T> add) {
  constexpr int kCount = kEnds ? 1 : kVectors;
  constexpr bool kStrided = kEnds || E == 1;
  const T *input = static_cast<const T*>(args.input), *other = static_cast<const T*>(args.other);
  T* output = static_cast<T*>(args.output);
  const int64_t whole = args.count / E, first = int64_t(blockIdx.x) * kVectorThreads * kCount + threadIdx.x;
  AlignedVector<T, E> a[kCount], b[kCount];
#pragma unroll
  for (int v = 0; v < kCount; v++) {
    const int64_t i = (first + v * int(kVectorThreads)) * E;
    if (i >= whole * E) continue;
    const Offsets at = walk.offsets(args, i);
    const int left = kEnds ? walk.left(args, i) : E;
    const Offsets next = left < E ? walk.offsets(args, i + left) : at;
    a[v] = load_vector<T, E, kStrided>(input + at.input, input + next.input, left, walk.input, args.input_strides[0]);
    b[v] = load_vector<T, E, kStrided>(other + at.other, other + next.other, left, walk.other, args.other_strides[0]);
  }
#pragma unroll
  for (int v = 0; v < kCount; v++) {
    const int64_t i = (first + v * int(kVectorThreads)) * E;
    if (i >= whole * E) continue;
#pragma unroll
    for (int e = 0; e < E; e++) a[v].element[e] = add(a[v].element[e], b[v].element[e]);
    *reinterpret_cast<AlignedVector<T, E>*>(output + i) = a[v];
  }
  if (blockIdx.x == 0 && threadIdx.x < args.count - whole * E) {
    const int64_t i = whole * E + threadIdx.x;
    const Offsets at = walk.offsets(args, i);
    output[i] = add(input[at.input], other[at.other]);
  }
}

// Does no row end inside a vector?
template <class T>
bool rows_are_whole(const AddArgs& args) {
  return args.dims == 1 || args.sizes[0] % kElements<T> == 0;
}

// whole: whether no row ends inside a vector.
template <class T>
Load load_of(const AddArgs& args, const void* data, const int64_t (&strides)[kAddDims], bool whole) {
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0 && strides[0] == 1;
  bool flat = aligned, rows = aligned && whole;
  for (int64_t d = 1, stride = args.sizes[0]; d < args.dims; stride *= args.sizes[d++]) {
    flat = flat && strides[d] == stride, rows = rows && strides[d] % kElements<T> == 0;
  }
  if (flat || rows) return Load::vector;
  return whole && strides[0] == 0 ? Load::broadcast : Load::strided;
}

// Of the kernels whose threads have one vector each, and those behind them one of the last elements.
template <class T>
int64_t vector_blocks(int64_t count) {
  return ceil_div(count / kElements<T> + count % kElements<T>, int64_t(kVectorThreads));
}

template <class T>
bool lie_flat(const AddArgs& args) {
  return args.dims == 1 && load_of<T>(args, args.input, args.input_strides, true) == Load::vector &&
         load_of<T>(args, args.other, args.other_strides, true) == Load::vector;
}
template <class T>
void add_where_flat(const AddArgs& args, Context& context) {
  launch(add_flat<T>, vector_blocks<T>(args.count), kVectorThreads, 0, context.stream,
         static_cast<const T*>(args.input), static_cast<const T*>(args.other), static_cast<T*>(args.output), args.count,
         Adder<T>(args));
}

template <class T>
void add_by_vectors(const AddArgs& args, Context& context) {
  constexpr int E = kElements<T>;
  const bool whole = rows_are_whole<T>(args), tiny = !whole && args.sizes[0] < E;
  const Load input = load_of<T>(args, args.input, args.input_strides, whole);
  const Load other = load_of<T>(args, args.other, args.other_strides, whole);
  Walk walk{tiny ? Load::strided : input, tiny ? Load::strided : other, args.count <= INT32_MAX, {}};
  for (int d = 0; walk.small && d < args.dims; d++) walk.sizes[d] = FastDiv(args.sizes[d]);
  const auto start = [&](auto kernel, int elements) {  // of a thread
    launch(kernel, ceil_div(args.count, elements * int64_t(kVectorThreads)), kVectorThreads, 0, context.stream, args,
           walk, Adder<T>(args));
  };
  if (tiny) start(add_vectors<T, 1, false>, kVectors);
  else if (whole && input != Load::strided && other != Load::strided) start(add_vectors<T, E, false>, kVectors * E);
  else start(add_vectors<T, E, true>, E);
}

}  // namespace torch_reductions::cuda::add
