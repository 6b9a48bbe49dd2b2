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

// Of n elements whose masks lie `step` bytes apart, bit i: is element i hidden?
template <class Bits>
__device__ __forceinline__ Bits hidden_bits(const uint8_t* shown, int64_t step, int n) {
  Bits bits = 0;
#pragma unroll 8
  for (int i = 0; i < n; i++, shown += step) bits |= Bits(*shown == 0) << i;
  return bits;
}

// Are the vectors of memory that hold n neighbours the mask's alone? At its two ends they may not be.
__device__ __forceinline__ bool in_whole_vectors(const Lines& lines, const uint8_t* shown, int n) {
  const auto at = reinterpret_cast<uintptr_t>(shown);
  return (at & ~uintptr_t(15)) >= reinterpret_cast<uintptr_t>(lines.mask.data) &&
         (at + n + 15 & ~uintptr_t(15)) <= reinterpret_cast<uintptr_t>(lines.mask_end);
}

// The same as hidden_bits of n <= N neighbours in whole vectors, all loaded at once. What the bits behind the n-th say
// is unspecified.
template <int N>
__device__ __forceinline__ uint64_t hidden_neighbours(const uint8_t* shown, int n) {
  static_assert(N <= 64);
  uint64_t bits = 0;
  constexpr int kMost = (N + 30) / 16;
  const int lead = int(reinterpret_cast<uintptr_t>(shown) & 15);
  uint32_t words[kMost][4];
#pragma unroll
  for (int v = 0; v < kMost; v++) {
#pragma unroll
    for (uint32_t& word : words[v]) word = ~0u;
    if (v * 16 < lead + n) load_words<16>(words[v], shown - lead + v * 16);
  }
#pragma unroll
  for (int v = 0; v < kMost; v++) {
    uint32_t hidden = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t w = words[v][i], zeros = ~(((w & 0x7f7f7f7f) + 0x7f7f7f7f) | w) & 0x80808080;  // bytes that are 0
      hidden |= (zeros >> 7) * 0x01020408 >> 24 << 4 * i;  // a bit each, side by side
    }
    bits |= v == 0 ? hidden >> lead : uint64_t(hidden) << (v * 16 - lead & 63);
  }
  return bits;
}

// A hidden element that was read as an extreme's value gets no index.
template <class Value>
__device__ __forceinline__ void clear_index(Value& value, bool hidden) {
  if constexpr (IsIndexed<Value>::value)
    if (hidden) value.index = -1;
}

}  // namespace torch_reductions::cuda::scan
