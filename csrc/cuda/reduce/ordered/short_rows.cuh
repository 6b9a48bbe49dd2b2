// Short rows that are contiguous in memory: a block stages many of them in shared memory, as they are, by 16-byte
// loads, and folds them from there: one thread per row up to 128 elements, 8 or 16 lanes per row up to 512.
#pragma once
#include "../../primitives/shared.cuh"
#include "vectors.cuh"

namespace torch_reductions::cuda::reduce {

inline constexpr int kShortThreads = 256;
inline constexpr int kThreadRow = 128, kLanesRow = 512;  // the longest row of a thread, of several lanes

template <bool Lanes>
inline constexpr int kStageBytes = Lanes ? 32768 : 16384;

// Padding after every 128 bytes, one word (two for elements of eight bytes): threads that read at a stride of a power
// of two meet different banks.
template <int Bytes>
inline constexpr int kPadding = Bytes == 8 ? 8 : 4;
template <int Bytes>
__device__ __host__ __forceinline__ constexpr int padded(int byte, int padding = kPadding<Bytes>) {
  return byte + (byte >> 7) * padding;
}
// Threads that read at the stride of a row meet different banks without padding where the stride is no multiple of
// several words. With it, rows of 31 words would lie 32 apart.
template <int Bytes>
inline int padding_of_rows(int row_bytes) {
  return row_bytes % (4 * kPadding<Bytes>) == 0 ? kPadding<Bytes> : 0;
}

// A vector at its padded address. There is no padding inside: 16 divides 128.
template <int Bytes>
__device__ __forceinline__ void store_padded(char* to, const uint32_t (&words)[4]) {
  if constexpr (Bytes == 8) {
    reinterpret_cast<uint2*>(to)[0] = make_uint2(words[0], words[1]);
    reinterpret_cast<uint2*>(to)[1] = make_uint2(words[2], words[3]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++) reinterpret_cast<uint32_t*>(to)[i] = words[i];
  }
}

template <class S>
struct Staged {
  const char* shared;
  int base;  // of the row, in bytes
  S source;
  int padding = kPadding<S::kBytes>;

  __device__ __forceinline__ typename S::Value at(int i) const {
    return load_one(source, shared + padded<S::kBytes>(base + i * S::kBytes, padding), i);
  }
  // The 16 bytes that begin at element i, by words: no word past the last byte is read.
  __device__ __forceinline__ typename S::Value vector(int i) const {
    const int first = base + i * S::kBytes;
    uint32_t words[5], aligned[4];
#pragma unroll
    for (int k = 0; k < 5; k++) {
      const int byte = (k < 4 ? first + 4 * k : first + 15) & ~3;
      words[k] = *reinterpret_cast<const uint32_t*>(shared + padded<S::kBytes>(byte, padding));
    }
#pragma unroll
    for (int k = 0; k < 4; k++) aligned[k] = __funnelshift_r(words[k], words[k + 1], first * 8 & 31);
    return vector_tree(source, aligned, i);
  }
  // The block of 2^Log elements that begins at i.
  template <int Log>
  __device__ __forceinline__ typename S::Value block(int i) const {
    if constexpr (Log == 0) return at(i);
    else if constexpr (S::kBytes < 4 && Log == kLogE<S>) return vector(i);
    else return S::Op::combine(block<Log - 1>(i), block<Log - 1>(i + (1 << (Log - 1))));
  }
  // base ∘ the n < 16 elements from number `first` on.
  __device__ __forceinline__ typename S::Value fold_onto(typename S::Value base, int first, int n) const {
    for_each_digit<4>(n, [&](auto k, int i) { base = S::Op::combine(base, block<k.value>(i)); }, first);
    return base;
  }
  // Blocks of 16 in a loop, the n <= 16 first ones from element `first` on: their digits in wait[]. Returns the block
  // of all of them where n is a power of two. Unrolled, they would be most of the family's code and of its compile
  // time.
  template <int Levels>
  __device__ __forceinline__ typename S::Value blocks(typename S::Value (&wait)[Levels][1], int first, int n) const {
    typename S::Value v[1] = {S::Op::identity()};
#pragma unroll 1
    for (int b = 0; b < n; b++) {
      v[0] = block<4>(first + (b << 4));
      push<typename S::Op, 1>(wait, v, b);
    }
    return v[0];
  }
  // The fold of a row of n <= Most elements.
  template <int Most = kThreadRow>
  __device__ __forceinline__ typename S::Value fold_row(int n) const {
    constexpr int Levels = log2_of(Most) - 3;
    typename S::Value wait[Levels][1], all = S::Op::identity();
    blocks(wait, 0, n >> 4);
    for_each_digit<Levels>(n >> 4, [&](auto k, int) { all = S::Op::combine(all, wait[k.value][0]); });
    return fold_onto(all, n & ~15, n & 15);
  }
};

// A row takes 8 or 16 lanes, 32 elements each.
__device__ __forceinline__ int log_lanes(int length) { return length < 256 ? 3 : 4; }

// The fold of a row; valid in the lane that the row ends in, `sub` being the lane's number in it. With 8 lanes the
// fourth xor step brings another row's total, which no digit takes: the row is shorter than 8 * 32.
template <class S>
__device__ __forceinline__ typename S::Value lanes_fold(const Staged<S>& row, int length, int sub) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  const int lanes = length >> 5, rest = length & 31;  // the whole lanes, and what the one after them takes
  Value digit[4], halves[2][1];
  const Value own = row.blocks(halves, sub << 5, sub < lanes ? 2 : sub == lanes ? rest >> 4 : 0);
  const Value all = lane_digits<Op, 4>(sub < lanes ? own : Op::identity(), lanes, digit, sub);
  Value v = fold_digits<Op>(lanes == 16 ? all : Op::identity(), digit);
  if (sub == lanes) {
    if (rest & 16) v = Op::combine(v, own);
    v = row.fold_onto(v, length & ~15, rest & 15);
  }
  return v;
}

template <class S, bool Lanes>
__global__ void __launch_bounds__(kShortThreads)
    short_rows(S source, const char* data, Output out, int64_t rows, int length, int rows_per_block, int padding) {
  char* const shared = reinterpret_cast<char*>(memory);
  const int64_t first = int64_t(blockIdx.x) * rows_per_block;
  const int count = int(rows - first < rows_per_block ? rows - first : rows_per_block);
  const char* p = data + first * length * S::kBytes;
  const int shift = int(reinterpret_cast<uintptr_t>(p) & 15), end = shift + count * length * S::kBytes;
  constexpr int Loads = kStageBytes<Lanes> / 16 / kShortThreads;
  const uint64_t policy = evict_first();
  uint32_t words[Loads][4];
#pragma unroll
  for (int j = 0; j < Loads; j++) {
    const int at = (j * kShortThreads + int(threadIdx.x)) * 16;
    load16(words[j], p - shift + at, policy, at < end);
  }
#pragma unroll
  for (int j = 0; j < Loads; j++) {
    const int at = (j * kShortThreads + int(threadIdx.x)) * 16;
    char* const to = shared + padded<S::kBytes>(at, padding);
    if (at < end) store_padded<S::kBytes>(to, words[j]);
  }
  __syncthreads();
  using Op = typename S::Op;
  if constexpr (!Lanes) {
    for (int i = threadIdx.x; i < count; i += kShortThreads) {
      const Staged<S> row{shared, shift + i * length * S::kBytes, source, padding};
      out.store<Op>(first + i, row.fold_row(length));
    }
  } else {
    const int lanes = 1 << log_lanes(length), sub = threadIdx.x & (lanes - 1), ends_in = length >> 5 & (lanes - 1);
    for (int base = 0; base < count; base += kShortThreads / lanes) {  // uniform: every lane takes part
      const int i = base + int(threadIdx.x) / lanes;
      const Staged<S> row{shared, shift + (i < count ? i : 0) * length * S::kBytes, source, padding};
      const typename S::Value v = lanes_fold(row, length, sub);
      if (i < count && sub == ends_in) out.store<Op>(first + i, v);
    }
  }
}

// Aligned rows of 2^k elements that share a vector with others: nothing to stage, a thread folds inside its vectors.
template <class S>
__global__ void __launch_bounds__(kShortThreads)
    vector_rows(S source, const char* data, Output out, int64_t vectors, int log_length) {
  using Op = typename S::Op;
  constexpr int Loads = 2, LogE = kLogE<S>;
  const int64_t first = int64_t(blockIdx.x) * kShortThreads * Loads + threadIdx.x;
  const uint64_t policy = evict_first();
  uint32_t words[Loads][4];
#pragma unroll
  for (int j = 0; j < Loads; j++)
    load16(words[j], data + (first + j * kShortThreads) * 16, policy, first + j * kShortThreads < vectors);
#pragma unroll
  for (int j = 0; j < Loads; j++) {
    const int64_t vector = first + j * kShortThreads;
    if (vector >= vectors) return;
    typename S::Value x[S::E];
#pragma unroll
    for (int i = 0; i < S::E; i++) x[i] = source.value(words[j], i, i & ((1 << log_length) - 1));
    static_for<LogE>([&](auto k) {  // a loop over k would not be unrolled where E is 16
      if (k.value < log_length) {   // uniform
#pragma unroll
        for (int i = 0; i < S::E >> (k.value + 1); i++) x[i] = Op::combine(x[2 * i], x[2 * i + 1]);
      }
    });
    const int count = S::E >> log_length;
    out.store_many<Op, S::E / 2>(vector * count, x, count);
  }
}

}  // namespace torch_reductions::cuda::reduce
