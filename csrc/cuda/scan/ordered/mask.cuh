// What a mask hides: the identity takes its place, in shared memory as an element, in registers as a value.
#pragma once
#include "lines.cuh"

namespace torch_reductions::cuda::scan {

// Is there a mask? Never for pairs, because it could hide one of the two lines.
template <class Value>
__device__ __forceinline__ bool masks(const Lines& lines) {
  return !IsPair<Value>::value && lines.mask.data != nullptr;
}

// Of an extreme the bound of its own type, at index -1: as Fold(0).
template <class T, class Op, int G>
__device__ __forceinline__ typename Op::Value hidden_value(const Input<T, Op, G>& source) {
  if constexpr (IsIndexed<typename Op::Value>::value) return empty_value(source);
  else return Op::identity();
}

template <class T, class Op, int G>
__device__ __forceinline__ T hidden_element(const Input<T, Op, G>& source) {
  return stored(source, hidden_value(source));
}

// Of a run of n elements along the length, bit i: is element i hidden? `shown` has the first one, in the order of the
// scan.
__device__ __forceinline__ uint64_t hidden_bits(const Lines& lines, const uint8_t* shown, int n) {
  const int64_t step = lines.reverse ? -lines.mask.strides.length : lines.mask.strides.length;
  uint64_t bits = 0;
#pragma unroll 1
  for (int i = 0; i < n; i++, shown += step) bits |= uint64_t(*shown == 0) << i;
  return bits;
}

// A hidden element that was read as an extreme's value gets no index.
template <class Value>
__device__ __forceinline__ void clear_index(Value& value, bool hidden) {
  if constexpr (IsIndexed<Value>::value)
    if (hidden) value.index = -1;
}

}  // namespace torch_reductions::cuda::scan
