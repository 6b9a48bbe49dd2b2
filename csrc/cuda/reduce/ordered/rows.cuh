// Rows in registers: 16-byte loads at any alignment, a warp or several blocks a row.
//
// A unit is what a warp loads at once: 8 groups of 32 vectors of 16 bytes. With C columns (1 or 2; the innermost
// dimension of [length, C]) an element is a row of C, and C results are folded side by side.
#pragma once
#include "../../primitives/grid.cuh"
#include "elements.cuh"

namespace torch_reductions::cuda {

inline constexpr int kRowThreads = 256;

template <class S, int C>
inline constexpr int kLogVector = kLogE<S> - log2_of(C);  // rows of C in a vector
template <class S, int C>
inline constexpr int kLogUnit = 8 + kLogVector<S, C>;  // and in a unit

// q[c][j]: the tree of column c over vector j * 32 + lane of the n rows at p, whose first stands at `index`. Loads are
// aligned ones that hold at least one of the rows; where p is not aligned, vectors are shifted across lanes. What lies
// past n is garbage, and never reaches a digit.
template <int C, class S>
__device__ __forceinline__ void load_unit(const S& source, typename S::Value (&q)[C][8], const char* p, int n, int lane,
                                          int64_t index, uint64_t policy) {
  using Op = typename S::Op;
  constexpr int PerVector = 1 << kLogVector<S, C>;
  const int shift = int(reinterpret_cast<uintptr_t>(p) & 15), end = n * C * S::kBytes + shift;  // in bytes
  const char* aligned = p - shift;
  uint32_t words[8][4];
#pragma unroll
  for (int j = 0; j < 8; j++)
    load_words<16>(words[j], aligned + (j * 32 + lane) * 16, policy, (j * 32 + lane) * 16 < end);
  if (S::kBytes < 16 && shift != 0) {  // uniform in the warp
    uint32_t over[4];
    load_words<16>(over, aligned + 256 * 16, policy, lane == 0 && 256 * 16 < end);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      if (j * 32 * 16 >= end) continue;  // uniform
      uint32_t both[8];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const uint32_t next = j < 7 ? words[j < 7 ? j + 1 : 7][i] : over[i];
        both[i] = words[j][i];
        both[4 + i] = __shfl_sync(kFullWarp, lane == 0 ? next : words[j][i], (lane + 1) & 31);
      }
      realign<(S::kBytes < 4)>(both, shift);
#pragma unroll
      for (int i = 0; i < 4; i++) words[j][i] = both[i];
    }
  }
#pragma unroll
  for (int j = 0; j < 8; j++) {
#pragma unroll
    for (int c = 0; c < C; c++) {
      typename S::Value x[PerVector];
#pragma unroll
      for (int i = 0; i < PerVector; i++)
        x[i] = source.value(words[j], i * C + c, index + (j * 32 + lane) * PerVector + i);
      q[c][j] = tree<Op, PerVector>(x);
    }
  }
}

// The digits of the r rows at p, less than a unit, whose vectors are in q.
template <class S, int C>
struct Tail {
  using Op = typename S::Op;
  using Value = typename S::Value;
  static constexpr int kVector = kLogVector<S, C>;
  Value group[3], vector[5], row[kVector + (kVector == 0)];
  int group_lane, lane_lane;  // group[] is right in the one, vector[] and row[] in the other

  // p points at the column's own element of the first row.
  __device__ __forceinline__ Tail(const S& source, const Value (&q)[8], const char* p, int r, int lane, int64_t index,
                                  uint64_t policy) {
    group_lane = r >> (5 + kVector), lane_lane = r >> kVector & 31;
#pragma unroll
    for (int k = 0; k < 3; k++) group[k] = Op::identity();
    if (group_lane > 0) lane_digits<Op, 3>(group_totals<Op>(q, lane), group_lane, group, lane);  // uniform
    Value v = q[0];
#pragma unroll
    for (int j = 1; j < 8; j++) {
      const Value other = q[j];
      if (j == group_lane) v = other;
    }
    lane_digits<Op, 5>(v, lane_lane, vector, lane);
    each<kVector>([&](auto k) {
      row[k.value] = Op::identity();
      if (r >> k.value & 1) {
        const int first = r >> (k.value + 1) << (k.value + 1);
        Value x[1 << k.value];
#pragma unroll
        for (int i = 0; i < 1 << k.value; i++)
          x[i] = load_one(source, p + (first + i) * C * S::kBytes, index + first + i, policy);
        row[k.value] = tree<Op, 1 << k.value>(x);
      }
    });
  }

  // base ∘ digits, in every lane.
  __device__ __forceinline__ Value onto(Value base) const {
    base = shuffle(fold_digits<Op>(base, group), group_lane);
    base = fold_digits<Op>(base, vector);
    each<kVector>([&](auto k) { base = Op::combine(base, row[kVector - 1 - k.value]); });
    return shuffle(base, lane_lane);
  }

  __device__ __forceinline__ void store(Value* digit, int lane) const {
    if (lane == group_lane) each<3>([&](auto k) { digit[kVector + 5 + k.value] = group[k.value]; });
    if (lane == lane_lane) {
      each<5>([&](auto k) { digit[kVector + k.value] = vector[k.value]; });
      each<kVector>([&](auto k) { digit[k.value] = row[k.value]; });
    }
  }
};

// Rows [outer, inner] of contiguous elements.
struct Rows {
  const char* data;
  int64_t inner, outer_bytes, inner_bytes;  // the steps from one row to the next

  __device__ __forceinline__ const char* row(int64_t i) const {
    if (inner == 1) return data + i * outer_bytes;
    const int64_t o = i / inner;
    return data + o * outer_bytes + (i - o * inner) * inner_bytes;
  }
};

// A warp a row, of at most 32 units.
template <class S>
__global__ void __launch_bounds__(kRowThreads) warp_rows(S source, Rows rows, Output out, int64_t count, int length,
                                                         bool stream) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogUnit = kLogUnit<S, 1>;
  const int lane = threadIdx.x & 31;
  const int64_t i = int64_t(blockIdx.x) * (kRowThreads / 32) + (threadIdx.x >> 5);
  if (i >= count) return;
  const uint64_t policy = cache_policy(stream);
  const char* p = rows.row(i);
  const int units = length >> LogUnit;
  Value mine = Op::identity(), folded = Op::identity();
  for (int u = 0; u << LogUnit < length; u++) {
    const int n = length - (u << LogUnit);
    Value q[1][8];
    load_unit<1>(source, q, p + int64_t(u) * 4096, n, lane, u << LogUnit, policy);
    if (u < units) {
      const Value v = unit_total<Op>(q[0], lane);
      if (lane == u) mine = v;
    }
    if ((u + 1) << LogUnit >= length) {  // the last one: all totals, then the ragged unit's digits
      if (units > 0) {
        Value digit[5];
        const Value all = lane_digits<Op, 5>(mine, units, digit, lane);
        folded = shuffle(fold_digits<Op>(units == 32 ? all : folded, digit), units & 31);
      }
      if (u == units) folded = Tail<S, 1>(source, q[0], p + int64_t(u) * 4096, n, lane, u << LogUnit, policy).onto(folded);
    }
  }
  if (lane == 0) out.store<Op>(i, folded);
}

// ------------------------------------------------------------------------------------------------ blocks of long rows

inline constexpr int kLogMaxUnits = 10;  // units that one block folds: 32 tables of 32
inline constexpr int kMaxDigits = 12 + kLogMaxUnits + 1;

template <class Value, int C>
struct FoldTables {
  Value unit[C][1 << kLogMaxUnits], table[C][32], digit[C][kMaxDigits];
};

// One block folds the n rows of C at p, at most 2^kLogMaxUnits units. Afterwards (synchronised) digit[c][k] is digit k of
// column c wherever bit k of n is set.
template <int C, class S>
__device__ __forceinline__ void fold_block(const S& source, const char* p, int64_t n, int64_t index,
                                           FoldTables<typename S::Value, C>& shared, uint64_t policy) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogUnit = kLogUnit<S, C>;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const int units = int(n >> LogUnit);
  for (int u = warp; int64_t(u) << LogUnit < n; u += warps) {
    const int64_t first = int64_t(u) << LogUnit;
    const int count = int(n - first < 1 << LogUnit ? n - first : 1 << LogUnit);
    Value q[C][8];
    load_unit<C>(source, q, p + int64_t(u) * 4096, count, lane, index + first, policy);
    each<C>([&](auto c) {
      if (u < units) {
        const Value v = unit_total<Op>(q[c.value], lane);
        if (lane == 0) shared.unit[c.value][u] = v;
      } else {
        Tail<S, C>(source, q[c.value], p + int64_t(u) * 4096 + c.value * S::kBytes, count, lane, index + first, policy)
            .store(shared.digit[c.value], lane);
      }
    });
  }
  __syncthreads();
  const int tables = units >> 5;
  if (units > 32) {  // uniform: whole tables of 32 units first
    for (int t = warp; t < tables; t += warps) {
      each<C>([&](auto c) {
        Value v = shared.unit[c.value][t * 32 + lane];
#pragma unroll
        for (int k = 0; k < 5; k++) v = xor_step<Op>(v, k, lane);
        if (lane == 0) shared.table[c.value][t] = v;
      });
    }
    __syncthreads();
  }
  if (warp == 0) {
    each<C>([&](auto c) {
      Value digit[5];
      const int first = units == 32 ? 0 : tables * 32, last = units & 31;
      const Value all = lane_digits<Op, 5>(first + lane < units ? shared.unit[c.value][first + lane] : Op::identity(), last,
                                           digit, lane);
      Value* to = shared.digit[c.value] + LogUnit;
      if (lane == last) each<5>([&](auto k) { to[k.value] = digit[k.value]; });
      if (units == 32) {
        if (lane == 0) to[5] = all;
      } else if (tables > 0) {
        const Value top = lane_digits<Op, 5>(lane < tables ? shared.table[c.value][lane] : Op::identity(), tables, digit, lane);
        if (lane == (tables & 31)) each<5>([&](auto k) { to[5 + k.value] = digit[k.value]; });
        if (tables == 32 && lane == 0) to[10] = top;
      }
    });
  }
  __syncthreads();
}

// The totals that other blocks left, folded the same way. Not inlined: every input type of an operator shares it.
template <int C, class Op>
__device__ __noinline__ void fold_totals(const typename Op::Value* totals, int64_t n,
                                         FoldTables<typename Op::Value, C>& shared, uint64_t policy) {
  fold_block<C>(Totals<Op>(), reinterpret_cast<const char*>(totals), n, 0, shared, policy);
}

// base ∘ the digits of n below `levels`, from the highest down.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_set_digits(typename Op::Value base, const typename Op::Value* digit,
                                                              int64_t n, int levels) {
  for (int k = levels - 1; k >= 0; k--)
    if (n >> k & 1) base = Op::combine(base, digit[k]);
  return base;
}

// A long row is cut into tiles of 2^log_tile rows of C. Each block folds one and leaves its total, the block with the
// ragged tile its digits; the last block to arrive folds them all.
template <class Value>
struct Split {
  int64_t length;
  int log_tile;
  unsigned tiles;          // of a row, the ragged one included
  int64_t stride;          // totals of a row, [tile][C], 16-byte aligned
  Value *totals, *digits;  // digits: [row][C][log_tile]
  unsigned* tickets;       // one a row
};

template <class S, int C>
__global__ void __launch_bounds__(kRowThreads, sizeof(typename S::Value) * C > 4 ? 2 : 3)
    split_rows(S source, Rows rows, Output out, Split<typename S::Value> split, bool stream) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  __shared__ FoldTables<Value, C> shared;
  const unsigned row = blockIdx.x / split.tiles, tile = blockIdx.x - row * split.tiles;
  const int64_t start = int64_t(tile) << split.log_tile, full = int64_t(1) << split.log_tile;
  const int64_t n = split.length - start < full ? split.length - start : full;
  const uint64_t policy = cache_policy(stream);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int c = threadIdx.x;

  fold_block<C>(source, rows.row(row) + start * C * S::kBytes, n, start, shared, policy);
  if (split.tiles == 1) {
    if (c < C) out.store<Op>(int64_t(row) * C + c, fold_set_digits<Op>(Op::identity(), shared.digit[c], n, split.log_tile + 1));
    return;
  }

  Value* totals = split.totals + row * split.stride;
  Value* digits = split.digits + int64_t(row) * C * split.log_tile;
  const int64_t whole = split.length >> split.log_tile;
  constexpr int PerVector = 1 << kLogVector<Totals<Op>, 1>;
  const bool one_warp = C == 1 && whole <= 32 * PerVector;  // uniform in the launch
  if (one_warp && warp != 0) return;
  if (n == full) {
    if (c < C) totals[int64_t(tile) * C + c] = shared.digit[c][split.log_tile];
  } else {
    for (int i = threadIdx.x; i < C * split.log_tile; i += one_warp ? 32 : blockDim.x)
      digits[i] = shared.digit[i / split.log_tile][i % split.log_tile];
  }

  if (one_warp) {
    if (!arrive_last_warp(split.tickets + row, split.tiles)) return;
    // A vector of totals a lane, and the ragged tile's digits a lane each: one round of loads.
    Value x[PerVector], digit[5];
#pragma unroll
    for (int i = 0; i < PerVector; i++) x[i] = Op::identity();
    const int mine = int(whole) - lane * PerVector;
    if (mine > 0) {
      uint32_t words[4];
      load_words<16>(words, reinterpret_cast<const char*>(totals + lane * PerVector), policy);
#pragma unroll
      for (int i = 0; i < PerVector; i++)
        if (i < mine) x[i] = Totals<Op>().value(words, i, 0);
    }
    Value ragged = Op::identity();
    if (lane < split.log_tile && (split.length >> lane & 1)) ragged = load_one(Totals<Op>(), reinterpret_cast<const char*>(digits + lane), 0, policy);
    const int vectors = int(whole) >> kLogVector<Totals<Op>, 1>;
    const Value all = lane_digits<Op, 5>(tree<Op, PerVector>(x), vectors, digit, lane);
    Value v = fold_digits<Op>(vectors == 32 ? all : Op::identity(), digit);
    if (PerVector == 4 && (whole & 2)) v = Op::combine(v, Op::combine(x[0], x[PerVector > 1]));
    if (PerVector > 1 && (whole & 1)) v = Op::combine(v, PerVector == 4 && (whole & 2) ? x[PerVector / 2] : x[0]);
    v = shuffle(v, vectors & 31);
    for (int k = split.log_tile - 1; k >= 0; k--)
      if (split.length >> k & 1) v = Op::combine(v, shuffle(ragged, k));
    if (lane == 0) out.store<Op>(row, v);
    return;
  }

  if (!arrive_last(split.tickets + row, split.tiles)) return;
  fold_totals<C, Op>(totals, whole, shared, policy);
  if (c < C) {
    Value v = fold_set_digits<Op>(Op::identity(), shared.digit[c], whole, kMaxDigits);
    for (int k = split.log_tile - 1; k >= 0; k--)
      if (split.length >> k & 1)
        v = Op::combine(v, load_one(Totals<Op>(), reinterpret_cast<const char*>(digits + c * split.log_tile + k), 0, policy));
    out.store<Op>(int64_t(row) * C + c, v);
  }
}

}  // namespace torch_reductions::cuda
