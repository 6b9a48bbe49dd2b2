// Short rows that follow one another in memory: a block stages many of them in shared memory, as they are, by 16-byte
// loads, and folds them from there: a thread a row up to 128 elements, a warp a row up to 1024.
#pragma once
#include "elements.cuh"

namespace torch_reductions::cuda {

inline constexpr int kShortThreads = 256, kStageBytes = 32768;
inline constexpr int kThreadRow = 128, kWarpRow = 1024;  // the longest row of a thread, of a warp

// Padding after every 128 bytes, one word (two for elements of eight bytes): threads that read at a stride of a power of
// two meet different banks.
template <int Bytes>
__device__ __host__ __forceinline__ constexpr int padded(int byte) {
  return byte + (byte >> 7 << (Bytes == 8 ? 3 : 2));
}

template <class S>
struct Staged {
  const char* shared;
  int base;  // of the row, in bytes
  S source;

  __device__ __forceinline__ typename S::Value at(int i) const {
    const char* p = shared + padded<S::kBytes>(base + i * S::kBytes);
    uint32_t words[(S::kBytes + 3) / 4];
    if constexpr (S::kBytes == 1) words[0] = *reinterpret_cast<const uint8_t*>(p);
    else if constexpr (S::kBytes == 2) words[0] = *reinterpret_cast<const uint16_t*>(p);
    else if constexpr (S::kBytes == 4) words[0] = *reinterpret_cast<const uint32_t*>(p);
    else {
      const uint2 pair = *reinterpret_cast<const uint2*>(p);
      words[0] = pair.x, words[1] = pair.y;
    }
    return source.value(words, 0, i);
  }
  // The block of 2^Log elements that begins at i.
  template <int Log>
  __device__ __forceinline__ typename S::Value block(int i) const {
    if constexpr (Log == 0) return at(i);
    else return S::Op::combine(block<Log - 1>(i), block<Log - 1>(i + (1 << (Log - 1))));
  }
  // base ∘ the blocks of n's digits below 2^(Log + 1), from element i on.
  template <int Log>
  __device__ __forceinline__ typename S::Value fold(typename S::Value base, int i, int n) const {
    if (n >> Log & 1) {
      base = S::Op::combine(base, block<Log>(i));
      i += 1 << Log;
    }
    if constexpr (Log > 0) base = fold<Log - 1>(base, i, n);
    return base;
  }
};

// A row of the warp, 2^Log elements a lane.
template <int Log, class S>
__device__ __forceinline__ typename S::Value warp_fold(const Staged<S>& row, int length, int lane) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  const int blocks = length >> Log, rest = length & ((1 << Log) - 1);
  Value digit[5], v = Op::identity();
  if (lane < blocks) v = row.template block<Log>(lane << Log);
  const Value all = lane_digits<Op, 5>(v, blocks, digit, lane);
  Value folded = shuffle(fold_digits<Op>(blocks == 32 ? all : Op::identity(), digit), blocks & 31);
  if (rest > 0) {  // uniform: the last few elements, one a lane
    v = lane < rest ? row.at((blocks << Log) + lane) : Op::identity();
    lane_digits<Op, 5>(v, rest, digit, lane);
    folded = shuffle(fold_digits<Op>(folded, digit), rest);
  }
  return folded;
}

template <class S, bool WarpRow>
__global__ void __launch_bounds__(kShortThreads) short_rows(S source, const char* data, Output out, int64_t rows,
                                                            int length, int rows_per_block, bool stream) {
  extern __shared__ uint4 memory[];
  char* const shared = reinterpret_cast<char*>(memory);
  const int64_t first = int64_t(blockIdx.x) * rows_per_block;
  const int count = int(rows - first < rows_per_block ? rows - first : rows_per_block);
  const char* p = data + first * length * S::kBytes;
  const int shift = int(reinterpret_cast<uintptr_t>(p) & 15), end = shift + count * length * S::kBytes;
  constexpr int Loads = kStageBytes / 16 / kShortThreads;
  const uint64_t policy = cache_policy(stream);
  uint32_t words[Loads][4];
#pragma unroll
  for (int j = 0; j < Loads; j++) {
    const int at = (j * kShortThreads + int(threadIdx.x)) * 16;
    load_words<16>(words[j], p - shift + at, policy, at < end);
  }
#pragma unroll
  for (int j = 0; j < Loads; j++) {
    const int at = (j * kShortThreads + int(threadIdx.x)) * 16;
    char* to = shared + padded<S::kBytes>(at);  // 16 divides 128: no padding inside a vector
    if (at < end) {
      if constexpr (S::kBytes == 8) {
        reinterpret_cast<uint2*>(to)[0] = make_uint2(words[j][0], words[j][1]);
        reinterpret_cast<uint2*>(to)[1] = make_uint2(words[j][2], words[j][3]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++) reinterpret_cast<uint32_t*>(to)[i] = words[j][i];
      }
    }
  }
  __syncthreads();
  if constexpr (!WarpRow) {
    for (int i = threadIdx.x; i < count; i += kShortThreads) {
      const Staged<S> row{shared, shift + i * length * S::kBytes, source};
      out.store<typename S::Op>(first + i, row.template fold<log2_of(kThreadRow)>(S::Op::identity(), 0, length));
    }
  } else {
    const int lane = threadIdx.x & 31;
    for (int i = threadIdx.x >> 5; i < count; i += kShortThreads / 32) {
      const Staged<S> row{shared, shift + i * length * S::kBytes, source};
      const typename S::Value v = length <= 256   ? warp_fold<3>(row, length, lane)
                                  : length <= 512 ? warp_fold<4>(row, length, lane)
                                                  : warp_fold<5>(row, length, lane);
      if (lane == 0) out.store<typename S::Op>(first + i, v);
    }
  }
}

}  // namespace torch_reductions::cuda
