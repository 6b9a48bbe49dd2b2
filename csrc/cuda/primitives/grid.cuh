// What the blocks of a grid hand to one another: tagged values.
//
// A value is published as 8-byte words, each a half of payload and a half of tag, so that one store makes it visible
// with its flag: no fence, no counter, and the block that publishes does not wait. Only blocks of a higher index wait,
// and blocks start in the order of their index. The tag is the number of the launch, which lives in device memory beside
// the words (a captured graph would freeze an argument): what earlier launches left does not match for 2^32 launches, so
// nothing is ever cleared.
#pragma once
#include <cstring>

#include "launch.h"
#include "memory.cuh"

namespace torch_reductions::cuda {

template <class V>
inline constexpr int kTaggedWords = sizeof(V) / 4;  // that a value of type V takes

// The tag of this launch: every block asks before it publishes or reads.
__device__ __forceinline__ unsigned launch_tag(const Board& board) {
  const unsigned tag = unsigned(load_relaxed(board.launch)) + 1;
  return tag == 0 ? 1 : tag;  // 0 is the tag of words that nobody has written
}

template <class V>
__device__ __forceinline__ void publish(uint64_t* word, const V& value, unsigned tag) {
  uint32_t payload[kTaggedWords<V>];
  memcpy(payload, &value, sizeof(V));
#pragma unroll
  for (int i = 0; i < kTaggedWords<V>; i++) store_relaxed(word + i, uint64_t(tag) << 32 | payload[i]);
}

// Waits for N values, value i at word(i) where wanted(i): all of them are asked for at once.
template <int N, class V, class Word, class Wanted>
__device__ __forceinline__ void await(V (&values)[N], Word word, Wanted wanted, unsigned tag) {
  bool missing;
  do {
    missing = false;
    uint64_t got[N][kTaggedWords<V>];
#pragma unroll
    for (int i = 0; i < N; i++)
      if (wanted(i)) {
#pragma unroll
        for (int k = 0; k < kTaggedWords<V>; k++) got[i][k] = load_relaxed(word(i) + k);
      }
#pragma unroll
    for (int i = 0; i < N; i++)
      if (wanted(i)) {
        uint32_t payload[kTaggedWords<V>];
#pragma unroll
        for (int k = 0; k < kTaggedWords<V>; k++) {
          missing |= unsigned(got[i][k] >> 32) != tag;
          payload[k] = uint32_t(got[i][k]);
        }
        memcpy(&values[i], payload, sizeof(V));
      }
  } while (missing);
}

// Called by one thread of each block that reads, once it has all that it waits for; the last of `readers` opens the board
// for the next launch.
__device__ __forceinline__ void leave(const Board& board, unsigned readers, unsigned tag) {
  unsigned* const left = reinterpret_cast<unsigned*>(board.launch + 1);
  if (readers == 1 || atomicInc(left, readers - 1) == readers - 1) store_relaxed(board.launch, tag);
}

}  // namespace torch_reductions::cuda
