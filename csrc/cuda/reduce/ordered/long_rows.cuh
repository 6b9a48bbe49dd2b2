// Long rows: blocks fold tiles of 2^k rows, and one more block folds their totals. With C columns (1 or 2; the
// innermost dimension of [length, C]) an element is a row of C.
#pragma once
#include "rows.cuh"

namespace torch_reductions::cuda {

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
