// Rows in registers: 16-byte loads at any alignment, one warp per row.
//
// A unit is what a warp loads at once: kGroups groups of 32 vectors of 16 bytes.
#pragma once
#include "vectors.cuh"

namespace torch_reductions::cuda::reduce {

inline constexpr int kRowThreads = 256;  // of warp_rows

template <class S>
inline constexpr int kUnitBytes = S::kGroups * 512;

template <class S>
inline constexpr int kLogUnit = 5 + log2_of(S::kGroups) + kLogE<S>;  // elements

// The n elements from number `first` of a tile on; q[j] is the tree over vector j * 32 + lane. Loads are aligned ones
// that hold at least one of the elements; where the elements are not aligned, vectors are shifted across lanes. What
// lies past n is garbage, and never reaches a digit.
template <class S>
__device__ __forceinline__ void load_unit(const S& source, typename S::Value (&q)[S::kGroups], const char* tile,
                                          int64_t first, int n, int lane, int64_t index) {
  const char* p = tile + first * S::kBytes;
  index += first;
  const int shift = int(reinterpret_cast<uintptr_t>(p) & 15), end = n * S::kBytes + shift;  // in bytes
  const char* aligned = p - shift;
  const uint64_t policy = evict_first();
  uint32_t words[S::kGroups][4];
#pragma unroll
  for (int j = 0; j < S::kGroups; j++)
    load16(words[j], aligned + (j * 32 + lane) * 16, policy, (j * 32 + lane) * 16 < end);
  if (shift != 0) {  // uniform in the warp
    uint32_t over[4];
    load16(over, aligned + kUnitBytes<S>, policy, lane == 0 && kUnitBytes<S> < end);
    const auto from_next = [&](int j, int i) {  // word i of the next vector
      const uint32_t next = j + 1 < S::kGroups ? words[j + 1 < S::kGroups ? j + 1 : j][i] : over[i];
      return __shfl_sync(kFullWarp, lane == 0 ? next : words[j][i], (lane + 1) & 31);
    };
    const auto shifted =
        [&](auto known) {  // how many words, where the compiler is to know it: then nothing is selected
          constexpr int Words = known.value;
#pragma unroll
          for (int j = 0; j < S::kGroups; j++) {
            if (j * 32 * 16 >= end) continue;  // uniform
            uint32_t both[8] = {};
#pragma unroll
            for (int i = 0; i < 4; i++) {
              both[i] = words[j][i];
              if (Words < 0 || i <= Words) both[4 + i] = from_next(j, i);
            }
            if constexpr (Words < 0) realign<false>(both, shift);
#pragma unroll
            for (int i = 0; i < 4; i++)
              words[j][i] = Words < 0
                                ? both[i]
                                : __funnelshift_r(both[(Words + i) & 7], both[(Words + i + 1) & 7], (shift & 3) * 8);
          }
        };
    if constexpr (S::kBytes >= 4) shifted(std::integral_constant<int, -1>{});
    else
      static_for<4>([&](auto whole) {
        if (shift >> 2 == whole.value) shifted(whole);
      });
  }
#pragma unroll
  for (int j = 0; j < S::kGroups; j++) q[j] = vector_tree(source, words[j], index + (j * 32 + lane) * S::E);
}

// Of the n elements from p on, the lane's one of those behind the last whole vector; p's element stands at `index`.
template <class S>
__device__ __forceinline__ typename S::Value load_rest(const S& source, const char* p, int n, int lane, int64_t index) {
  const int i = (n & ~(S::E - 1)) + lane;
  return i < n ? load_one(source, p + i * S::kBytes, index + i) : S::Op::identity();
}

// The digits of r elements, less than a unit, whose vectors are in q; rest: load_rest's.
template <class S>
struct Tail {
  using Op = typename S::Op;
  using Value = typename S::Value;
  static constexpr int kVector = kLogE<S>, kLogGroups = log2_of(S::kGroups);
  Value group[kLogGroups], vector[5], last[kVector];
  int group_lane, vector_lane, last_lane;  // where group[], vector[] and last[] are valid

  __device__ __forceinline__ Tail(const Value (&q)[S::kGroups], Value rest, int r, int lane) {
    group_lane = r >> (5 + kVector), vector_lane = r >> kVector & 31, last_lane = r & (S::E - 1);
#pragma unroll
    for (int k = 0; k < kLogGroups; k++) group[k] = Op::identity();
    if (group_lane > 0) lane_digits<Op, kLogGroups>(group_totals<Op>(q, lane), group_lane, group, lane);  // uniform
    Value v = q[0];
#pragma unroll
    for (int j = 1; j < S::kGroups; j++) {
      const Value other = q[j];
      if (j == group_lane) v = other;
    }
    lane_digits<Op, 5>(v, vector_lane, vector, lane);
    lane_digits<Op, kVector>(rest, last_lane, last, lane);
  }

  // base ∘ digits, in every lane.
  __device__ __forceinline__ Value onto(Value base) const {
    base = shuffle(fold_digits<Op>(base, group), group_lane);
    base = shuffle(fold_digits<Op>(base, vector), vector_lane);
    return shuffle(fold_digits<Op>(base, last), last_lane);
  }

  __device__ __forceinline__ void store(Value* digit, int lane) const {
    if (lane == group_lane) static_for<kLogGroups>([&](auto k) { digit[kVector + 5 + k.value] = group[k.value]; });
    if (lane == vector_lane) static_for<5>([&](auto k) { digit[kVector + k.value] = vector[k.value]; });
    if (lane == last_lane) static_for<kVector>([&](auto k) { digit[k.value] = last[k.value]; });
  }
};

// The fold of the n > 0 elements at p, at most 32 units, in every lane. Its digits too, where `digits` is not null.
template <class S>
__device__ __forceinline__ typename S::Value fold_in_warp(const S& source, const char* p, int n,
                                                          typename S::Value* digits = nullptr) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogUnit = kLogUnit<S>;
  const int lane = threadIdx.x & 31, units = n >> LogUnit;
  Value rest{};
  if (S::kBytes < 4) rest = load_rest(source, p, n, lane, 0);  // beside the other loads, where registers allow it
  Value mine = Op::identity(), folded = Op::identity();
  for (int u = 0; u << LogUnit < n; u++) {
    const int first = u << LogUnit;
    Value q[S::kGroups];
    load_unit(source, q, p, first, n - first, lane, 0);
    if (u < units) {
      const Value v = unit_total<Op>(q, lane);
      if (lane == u) mine = v;
    }
    if ((u + 1) << LogUnit < n) continue;
    if (units > 0) {  // the last one: all totals, then the ragged unit's digits
      Value digit[5];
      const Value all = lane_digits<Op, 5>(mine, units, digit, lane);
      if (digits != nullptr && lane == (units & 31)) {
        static_for<5>([&](auto k) {
          if (units >> k.value & 1) digits[LogUnit + k.value] = digit[k.value];
        });
        if (units == 32) digits[LogUnit + 5] = all;
      }
      folded = shuffle(fold_digits<Op>(units == 32 ? all : folded, digit), units & 31);
    }
    if (u == units) {
      if (S::kBytes >= 4) rest = load_rest(source, p + first * S::kBytes, n - first, lane, first);
      const Tail<S> tail(q, rest, n - first, lane);
      if (digits != nullptr) tail.store(digits, lane);
      folded = tail.onto(folded);
    }
  }
  return folded;
}

// One warp per row, of at most 32 units.
template <class S>
__global__ void __launch_bounds__(kRowThreads) warp_rows(S source, Lines rows, Output out, int64_t count, int length) {
  const int64_t i = int64_t(blockIdx.x) * (kRowThreads / 32) + (threadIdx.x >> 5);
  if (i >= count) return;
  const typename S::Value folded = fold_in_warp(source, rows.line(i), length);
  if ((threadIdx.x & 31) == 0) out.store<typename S::Op>(i, folded);
}

}  // namespace torch_reductions::cuda::reduce
