// What the blocks of a grid pass to one another: tagged values.
//
// A value is published as 8-byte words, each a half of payload and a half of tag, so that one store makes it visible
// with its flag: no fence, no counter, and the publishing block does not wait. Only blocks of a higher index wait, and
// blocks start in the order of their index; those of a scan that take tile after tile draw numbers (carry.cuh). The tag
// is the number of the launch, which lives in device memory beside the words (a captured graph would freeze an
// argument): words of earlier launches do not match for 2^32 launches, so nothing is ever cleared.
#pragma once
#include <cstring>

#include "launch.h"
#include "memory.cuh"

namespace torch_reductions::cuda {

template <class V>
inline constexpr int kTaggedWords = sizeof(V) / 4;  // that a value of type V takes

// The number of this launch, from which a block computes its tag when it needs it. A block may load it early: nothing
// waits for the load before launch_tag.
__device__ __forceinline__ uint64_t launch_number(const TileState& tile_state) {
  return load_relaxed(tile_state.launch);
}

__device__ __forceinline__ unsigned launch_tag(uint64_t number) {
  unsigned tag = unsigned(number);
#ifndef CUDA_ON_CPU
  asm volatile("" : "+r"(tag));  // otherwise the compiler would add, and wait, right after the load
#endif
  tag++;
  return tag == 0 ? 1 : tag;  // 0 is the tag of words that were never written
}

template <class V>
__device__ __forceinline__ void publish(uint64_t* word, const V& value, unsigned tag) {
  uint32_t payload[kTaggedWords<V>];
  memcpy(payload, &value, sizeof(V));
#pragma unroll
  for (int i = 0; i < kTaggedWords<V>; i++) store_relaxed(word + i, uint64_t(tag) << 32 | payload[i]);
}

// What a reader waits for: words whose tag has these bits. In a rehearsal the mask is 0, and any words will do.
struct Awaited {
  unsigned tag, mask = ~0u;
};

// Loads N values once, value i at word(i), all at the same time: no load is conditional, or each would wait for the one
// before. Returns whether all have arrived.
template <int N, class V, class Word>
__device__ __forceinline__ bool arrived(V (&values)[N], Word word, Awaited awaited) {
  uint64_t got[N][kTaggedWords<V>];
#pragma unroll
  for (int i = 0; i < N; i++)
#pragma unroll
    for (int k = 0; k < kTaggedWords<V>; k++) got[i][k] = load_relaxed(word(i) + k);
  unsigned differ = 0;
#pragma unroll
  for (int i = 0; i < N; i++) {
    uint32_t payload[kTaggedWords<V>];
#pragma unroll
    for (int k = 0; k < kTaggedWords<V>; k++) {
      differ |= (unsigned(got[i][k] >> 32) ^ awaited.tag) & awaited.mask;
      payload[k] = uint32_t(got[i][k]);
    }
    memcpy(&values[i], payload, sizeof(V));
  }
  return differ == 0;
}

// Between two polls: the pause grows with the wait so far, so that waiting warps leave the L2 to those that they wait
// for.
__device__ __forceinline__ void pause([[maybe_unused]] int rounds) {
#ifndef CUDA_ON_CPU
  __nanosleep(rounds < 64 ? rounds * 16 : 1024);
#endif
}

// Waits for N values, value i at word(i).
template <int N, class V, class Word>
__device__ __forceinline__ void await(V (&values)[N], Word word, Awaited awaited) {
  for (int attempts = 0; !arrived(values, word, awaited);) pause(++attempts);
}

// Called once for each of the `readers`, when it has read all that it waits for; the last one advances the state to the
// next launch.
__device__ __forceinline__ void release(const TileState& tile_state, unsigned readers, unsigned tag) {
  unsigned* const left = reinterpret_cast<unsigned*>(tile_state.launch + 1);
  if (readers == 1 || atomicInc(left, readers - 1) == readers - 1) store_relaxed(tile_state.launch, tag);
}

}  // namespace torch_reductions::cuda
