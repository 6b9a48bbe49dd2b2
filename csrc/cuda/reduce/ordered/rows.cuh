// Rows in registers: 16-byte loads at any alignment, a warp or several blocks a row.
//
// A unit is what a warp loads at once: kGroups groups of 32 vectors of 16 bytes. With C columns (1 or 2; the innermost
// dimension of [length, C]) an element is a row of C, and C results are folded side by side.
#pragma once
#include "../../primitives/grid.cuh"
#include "elements.cuh"

namespace torch_reductions::cuda {

inline constexpr int kRowThreads = 256;

template <class S>
inline constexpr int kGroups = S::kGroups;
template <class S>
inline constexpr int kUnitBytes = kGroups<S> * 512;

template <class S, int C>
inline constexpr int kLogVector = S::E == 1 ? 0 : kLogE<S> - log2_of(C);  // rows of C in a vector
template <class S, int C>
inline constexpr int kLogUnit = 5 + log2_of(kGroups<S>) + kLogVector<S, C>;  // and in a unit

// The n rows of C that begin at row `first` of a tile; q[c][j] is the tree of column c over vector j * 32 + lane. Loads
// are aligned ones that hold at least one of the rows; where the rows are not aligned, vectors are shifted across lanes.
// What lies past n is garbage, and never reaches a digit.
template <int C, class T, class Op, int G>
__device__ __forceinline__ void load_unit(const Input<T, Op, G>& source, typename Op::Value (&q)[C][G],
                                          const char* tile, int64_t first, int n, int lane, int64_t index) {
  using S = Input<T, Op, G>;
  constexpr int Groups = kGroups<S>, PerVector = 1 << kLogVector<S, C>;
  const char* p = tile + first * C * S::kBytes;
  index += first;
  const int shift = int(reinterpret_cast<uintptr_t>(p) & 15), end = n * C * S::kBytes + shift;  // in bytes
  const char* aligned = p - shift;
  const uint64_t policy = evict_first();
  uint32_t words[Groups][4];
#pragma unroll
  for (int j = 0; j < Groups; j++) load16(words[j], aligned + (j * 32 + lane) * 16, policy, (j * 32 + lane) * 16 < end);
  if (shift != 0) {  // uniform in the warp
    uint32_t over[4];
    load16(over, aligned + kUnitBytes<S>, policy, lane == 0 && kUnitBytes<S> < end);
#pragma unroll
    for (int j = 0; j < Groups; j++) {
      if (j * 32 * 16 >= end) continue;  // uniform
      uint32_t both[8];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const uint32_t next = j + 1 < Groups ? words[j + 1 < Groups ? j + 1 : j][i] : over[i];
        both[i] = words[j][i];
        both[4 + i] = __shfl_sync(kFullWarp, lane == 0 ? next : words[j][i], (lane + 1) & 31);
      }
      realign<(S::kBytes < 4)>(both, shift);
#pragma unroll
      for (int i = 0; i < 4; i++) words[j][i] = both[i];
    }
  }
#pragma unroll
  for (int j = 0; j < Groups; j++) {
#pragma unroll
    for (int c = 0; c < C; c++) {
      typename Op::Value x[PerVector];
#pragma unroll
      for (int i = 0; i < PerVector; i++)
        x[i] = source.value(words[j], i * C + c, index + (j * 32 + lane) * PerVector + i);
      q[c][j] = tree<Op, PerVector>(x);
    }
  }
}

// The same of published totals, [row][C].
template <int C, class Op>
__device__ __forceinline__ void load_unit(const Published<Op>& source,
                                          typename Op::Value (&q)[C][kGroups<Published<Op>>], const char*,
                                          int64_t first, int n, int lane, int64_t) {
  constexpr int Words = kTaggedWords<typename Op::Value>;
  const uint64_t* words = source.words + first * C * Words;
#pragma unroll
  for (int c = 0; c < C; c++)
    await(
        q[c], [&](int j) { return words + ((j * 32 + lane) * C + c) * Words; },
        [&](int j) { return j * 32 + lane < n; }, source.tag);
}

// The digits of the r rows from `first` on, less than a unit, whose vectors are in q.
template <class S, int C>
struct Tail {
  using Op = typename S::Op;
  using Value = typename S::Value;
  static constexpr int kVector = kLogVector<S, C>, kLogGroups = log2_of(kGroups<S>);
  Value group[kLogGroups], vector[5], row[kVector + (kVector == 0)];
  int group_lane, lane_lane;  // group[] is right in the one, vector[] and row[] in the other

  // p points at the column's own element of the first row, which stands at `index`.
  __device__ __forceinline__ Tail(const S& source, const Value (&q)[kGroups<S>], const char* p, int r, int lane,
                                  int64_t index) {
    group_lane = r >> (5 + kVector), lane_lane = r >> kVector & 31;
#pragma unroll
    for (int k = 0; k < kLogGroups; k++) group[k] = Op::identity();
    if (group_lane > 0) lane_digits<Op, kLogGroups>(group_totals<Op>(q, lane), group_lane, group, lane);  // uniform
    Value v = q[0];
#pragma unroll
    for (int j = 1; j < kGroups<S>; j++) {
      const Value other = q[j];
      if (j == group_lane) v = other;
    }
    lane_digits<Op, 5>(v, lane_lane, vector, lane);
    if constexpr (kVector > 0)
      each<kVector>([&](auto k) {
        row[k.value] = Op::identity();
        if (r >> k.value & 1) {
          const int first = r >> (k.value + 1) << (k.value + 1);
          Value x[1 << k.value];
#pragma unroll
          for (int i = 0; i < 1 << k.value; i++)
            x[i] = load_one(source, p + (first + i) * C * S::kBytes, index + first + i);
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
    if (lane == group_lane) each<kLogGroups>([&](auto k) { digit[kVector + 5 + k.value] = group[k.value]; });
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
__global__ void __launch_bounds__(kRowThreads) warp_rows(S source, Rows rows, Output out, int64_t count, int length) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogUnit = kLogUnit<S, 1>;
  const int lane = threadIdx.x & 31;
  const int64_t i = int64_t(blockIdx.x) * (kRowThreads / 32) + (threadIdx.x >> 5);
  if (i >= count) return;
  const char* p = rows.row(i);
  const int units = length >> LogUnit;
  Value mine = Op::identity(), folded = Op::identity();
  for (int u = 0; u << LogUnit < length; u++) {
    const int first = u << LogUnit, n = length - first;
    Value q[1][kGroups<S>];
    load_unit<1>(source, q, p, first, n, lane, 0);
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
      if (u == units) folded = Tail<S, 1>(source, q[0], p + first * S::kBytes, n, lane, first).onto(folded);
    }
  }
  if (lane == 0) out.store<Op>(i, folded);
}

// ------------------------------------------------------------------------------------------------ blocks of long rows

inline constexpr int kLogMaxUnits = 10;  // units that one block folds: 32 tables of 32
inline constexpr int kMaxDigits = 12 + kLogMaxUnits + 1;

template <class Value, int C>
struct FoldTables {
  Value unit[C][1 << kLogMaxUnits], table[C][32], digit[C][kMaxDigits], ragged[C][kMaxDigits];
};

// One block folds the n rows of C of a tile, at most 2^kLogMaxUnits units; the first stands at `index`. Afterwards
// (synchronised) digit[c][k] is digit k of column c wherever bit k of n is set.
template <int C, class S>
__device__ __forceinline__ void fold_block(const S& source, const char* tile, int64_t n, int64_t index,
                                           FoldTables<typename S::Value, C>& shared) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int LogUnit = kLogUnit<S, C>;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const int units = int(n >> LogUnit);
  for (int u = warp; int64_t(u) << LogUnit < n; u += warps) {
    const int64_t first = int64_t(u) << LogUnit;
    const int count = int(n - first < 1 << LogUnit ? n - first : 1 << LogUnit);
    Value q[C][kGroups<S>];
    load_unit<C>(source, q, tile, first, count, lane, index);
    each<C>([&](auto c) {
      if (u < units) {
        const Value v = unit_total<Op>(q[c.value], lane);
        if (lane == 0) shared.unit[c.value][u] = v;
      } else {
        const char* p = nullptr;  // published totals have no part of a vector
        if constexpr (S::E > 1) p = tile + (first * C + c.value) * S::kBytes;
        Tail<S, C>(source, q[c.value], p, count, lane, index + first).store(shared.digit[c.value], lane);
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
  if (warp == 0 && units > 0) {
    each<C>([&](auto c) {
      Value digit[5];
      const int first = units == 32 ? 0 : tables * 32, last = units & 31;
      const Value all = lane_digits<Op, 5>(first + lane < units ? shared.unit[c.value][first + lane] : Op::identity(),
                                           last, digit, lane);
      Value* to = shared.digit[c.value] + LogUnit;
      if (lane == last) each<5>([&](auto k) { to[k.value] = digit[k.value]; });
      if (units == 32) {
        if (lane == 0) to[5] = all;
      } else if (tables > 0) {
        const Value top =
            lane_digits<Op, 5>(lane < tables ? shared.table[c.value][lane] : Op::identity(), tables, digit, lane);
        if (lane == (tables & 31)) each<5>([&](auto k) { to[5 + k.value] = digit[k.value]; });
        if (tables == 32 && lane == 0) to[10] = top;
      }
    });
  }
  __syncthreads();
}

// The totals that other blocks publish, folded the same way. Not inlined: every input type of an operator shares it.
template <int C, class Op>
__device__ __noinline__ void fold_published(const Published<Op>& source, int64_t n,
                                            FoldTables<typename Op::Value, C>& shared) {
  fold_block<C>(source, nullptr, n, 0, shared);
}

// The fold of at most 256 published totals of column c of C, by one warp: 8 neighbours a lane.
template <int C, class Op>
__device__ __forceinline__ typename Op::Value fold_few(const Published<Op>& source, int c, int n, int lane) {
  using Value = typename Op::Value;
  Value x[8], digit[5];
#pragma unroll
  for (int i = 0; i < 8; i++) x[i] = Op::identity();
  await(
      x, [&](int i) { return source.words + ((lane * 8 + i) * C + c) * kTaggedWords<Value>; },
      [&](int i) { return lane * 8 + i < n; }, source.tag);
  const int lanes = n >> 3;
  const Value all = lane_digits<Op, 5>(tree<Op, 8>(x), lanes, digit, lane);
  Value v = fold_digits<Op>(lanes == 32 ? all : Op::identity(), digit);
  if (n & 4) v = Op::combine(v, tree<Op, 4>(x));  // what is left, in lane n / 8
  if (n & 2) v = Op::combine(v, n & 4 ? tree<Op, 2>(x + 4) : tree<Op, 2>(x));
  if (n & 1) v = Op::combine(v, n & 4 ? (n & 2 ? x[6] : x[4]) : (n & 2 ? x[2] : x[0]));
  return shuffle(v, lanes & 31);
}

// base ∘ the digits of n below `levels`, from the highest down.
template <class Op>
__device__ __forceinline__ typename Op::Value fold_set_digits(typename Op::Value base, const typename Op::Value* digit,
                                                              int64_t n, int levels) {
  for (int k = levels - 1; k >= 0; k--)
    if (n >> k & 1) base = Op::combine(base, digit[k]);
  return base;
}

// A long row is cut into tiles of 2^log_tile rows of C. Each block folds one and publishes its total, the block of the
// ragged tile its digits; one more block a row, the last ones of the grid, waits for them and folds them.
struct Split {
  int64_t length;
  int log_tile;
  unsigned rows, tiles;  // tiles of a row, the ragged one included
  Board board;           // where there are several tiles: [row][tile, then digit][C]
};

// Blocks a multiprocessor: as many as leave a unit's loads and values in registers.
template <class S, int C>
inline constexpr int kSplitBlocks = C * sizeof(typename S::Value) == 4                     ? (S::E > 4 ? 4 : 3)
                                    : C == 1 && std::is_same_v<typename S::Value, int64_t> ? 3
                                                                                           : 2;

template <class S, int C>
__global__ void __launch_bounds__(kRowThreads, kSplitBlocks<S, C>)
    split_rows(S source, Rows rows, Output out, Split split) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  constexpr int Words = kTaggedWords<Value>;
  __shared__ FoldTables<Value, C> shared;
  const bool several = split.tiles > 1, reader = several && blockIdx.x >= split.rows * split.tiles;
  const unsigned row = reader ? blockIdx.x - split.rows * split.tiles : blockIdx.x / split.tiles;
  const unsigned tag = several ? launch_tag(split.board) : 0;
  const int64_t whole = split.length >> split.log_tile, full = int64_t(1) << split.log_tile;
  uint64_t* const board = split.board.words + int64_t(row) * (whole + split.log_tile) * C * Words;
  uint64_t* const digits = board + whole * C * Words;
  const int c = threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;

  if (!reader) {
    const unsigned tile = blockIdx.x - row * split.tiles;
    const int64_t start = int64_t(tile) << split.log_tile, left = split.length - start, n = left < full ? left : full;
    if (several && c == 0) prefetch(board + int64_t(tile) * C * Words);
    fold_block<C>(source, rows.row(row) + start * C * S::kBytes, n, start, shared);
    if (!several) {
      if (c < C)
        out.store<Op>(int64_t(row) * C + c,
                      fold_set_digits<Op>(Op::identity(), shared.digit[c], n, split.log_tile + 1));
    } else if (n == full) {
      if (c < C) publish(board + (int64_t(tile) * C + c) * Words, shared.digit[c][split.log_tile], tag);
    } else {
      for (int i = threadIdx.x; i < split.log_tile * C; i += blockDim.x)
        if (n >> i / C & 1) publish(digits + i * Words, shared.digit[i % C][i / C], tag);
    }
    return;
  }

  const Published<Op> totals{board, tag};
  if (warp == warps - 1) {  // the last warp asks for the ragged tile's digits, one a lane
    for (int i = lane; i < split.log_tile * C; i += 32) {
      if (!(split.length >> i / C & 1)) continue;
      Value digit[1];
      await(digit, [&](int) { return digits + i * Words; }, [](int) { return true; }, tag);
      shared.ragged[i % C][i / C] = digit[0];
    }
  }
  Value v = Op::identity();
  if (whole <= 256) {  // a warp a column
    for (int column = warp; column < C; column += warps) {
      const Value folded = fold_few<C>(totals, column, int(whole), lane);
      if (lane == 0) shared.unit[column][0] = folded;
    }
    __syncthreads();
    if (c < C) v = shared.unit[c][0];
  } else {
    fold_published<C>(totals, whole, shared);
    if (c < C) v = fold_set_digits<Op>(v, shared.digit[c], whole, kMaxDigits);
  }
  if (threadIdx.x == blockDim.x - 1) leave(split.board, split.rows, tag);
  if (c < C)
    out.store<Op>(int64_t(row) * C + c, fold_set_digits<Op>(v, shared.ragged[c], split.length, split.log_tile));
}

}  // namespace torch_reductions::cuda
