// Fold(n) of docs/order.md over a sequence of values, the same code on the CPU and on the GPU.
//
// A binary counter: for each set binary digit of the number of elements so far the value of one block of that many
// elements is kept. When the next block of the same size is complete, the two are combined into one of twice the size.
// V is a number, or several side by side.
#pragma once
#include <cstdint>

#include "dtype.h"

namespace torch_reductions {

// The kept blocks, by the digits of their number. The lower digits are indexed at compile time, so that their blocks
// can stay in registers; the higher ones, enough for 2^40 units, are in an array.
inline constexpr int kNear = 2, kFar = 38;
template <class V>
struct Waiting {
  V near[kNear] = {};
  V* far;  // kFar

  // The value of block `index`.
  template <int level = 0>
  HOST_DEVICE void push(V value, int64_t index) {
    if constexpr (level < kNear) {
      if ((unsigned(index) >> level & 1) == 0) near[level] = value;
      else push<level + 1>(near[level] + value, index);
    } else {
      int i = 0;
      for (index >>= kNear; index >> i & 1; i++) value = far[i] + value;
      far[i] = value;
    }
  }

  // Those of `count` blocks from left to right, behind the total of what came before them.
  HOST_DEVICE V fold(int64_t count, V total) const {
    if (const int64_t larger = count >> kNear; larger > 0) {
      int i = 0;
      while (larger >> i > 1) i++;
      for (; i >= 0; i--) {
        if (larger >> i & 1) total = total + far[i];
      }
    }
    return fold_near<kNear - 1>(count, total);
  }

  template <int level>
  HOST_DEVICE V fold_near(int64_t count, V total) const {
    if (unsigned(count) >> level & 1) total = total + near[level];
    if constexpr (level > 0) return fold_near<level - 1>(count, total);
    else return total;
  }
};

// How many values are kept at most of `count` blocks.
inline int places_of(int64_t count) {
  int places = 0;
  for (; count > 0; count >>= 1) places++;
  return places;
}

// The value of the block of N elements that begins at `first`; value(i) is that of element i.
template <int N, class Index, class Value>
HOST_DEVICE auto block_of(Index first, const Value& value) {
  if constexpr (N == 1) return value(first);
  else {
    const auto left = block_of<N / 2>(first, value);
    return left + block_of<N / 2>(first + N / 2, value);
  }
}

// The fold of elements none of which is -0, so that it may begin at +0. Blocks of kUnit elements are unrolled. Where
// the elements do not come first, it begins at the total of what came before them.
template <class V, int kUnit>
class Fold {
 public:
  // far: memory for kFar values, where larger blocks are kept.
  explicit HOST_DEVICE Fold(V* far, V before = V{}) : before_(before) { waiting_.far = far; }

  // Adds `units` more units.
  template <class Index, class Value>
  HOST_DEVICE void add(Index units, const Value& value) {
    add_blocks(units, [&](Index first) { return block_of<kUnit>(first, value); });
  }
  // The same, where block(i) is the value of the unit that begins at element i.
  template <class Index, class Block>
  HOST_DEVICE void add_blocks(Index units, const Block& block) {
    for (Index first = 0; units > 0; units--, first += kUnit) waiting_.push(block(first), units_++);
  }

  // The total of all.
  HOST_DEVICE V total() const { return waiting_.fold(units_, before_); }

  // The total of all, and of n more behind them: less than a unit.
  template <class Index, class Value>
  HOST_DEVICE V total(Index n, const Value& value) const {
    return add_rest<kUnit / 2>(total(), Index(0), n, value);
  }

 private:
  template <int size, class Index, class Value>
  static HOST_DEVICE V add_rest(V total, Index first, Index n, const Value& value) {
    if constexpr (size == 0) return total;
    else {
      if (n & size) total = total + block_of<size>(first, value), first += size;
      return add_rest<size / 2>(total, first, n, value);
    }
  }

  V before_;
  Waiting<V> waiting_;
  int64_t units_ = 0;
};

// Fold(n) of values of which none is -0, behind what came before them; larger blocks are kept in `far`.
template <class V, int kUnit, class Index, class Value>
HOST_DEVICE V fold_with(V* far, Index n, const Value& value, V before = V{}) {
  Fold<V, kUnit> every(far, before);
  every.add(n / kUnit, value);
  return every.total(n % kUnit, [&](Index i) { return value(n / kUnit * kUnit + i); });
}

template <class V, int kUnit, class Index, class Value>
HOST_DEVICE V fold(Index n, const Value& value, V before = V{}) {
  V far[kFar];
  return fold_with<V, kUnit>(far, n, value, before);
}

}  // namespace torch_reductions
