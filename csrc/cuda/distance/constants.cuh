// What the rungs with constant memory have in common on the device: the bank, and the totals of its parts.
#pragma once
#include "constants.h"
#include "points.cuh"

namespace torch_reductions::cuda::distance {
namespace {

__constant__ __align__(16) unsigned char bank[kBankBytes];  // a module's own

template <class T>
__device__ __forceinline__ const T* constants_of(const ConstantPart& part) {
  return reinterpret_cast<const T*>(bank + part.slot * kSlotBytes);
}

// All parts except the last are blocks of `most` centers, whose totals are kept in memory.
template <class T>
__device__ __forceinline__ WaitingInMemory<Accumulator<T>> waiting_of(const DistanceArgs& args,
                                                                      const ConstantPart& part, int64_t i) {
  return {static_cast<Accumulator<T>*>(part.waiting) + i, args.count};
}

// What a part's total begins with: the last part, if it is no such block, follows all that are kept.
template <class T>
__device__ __forceinline__ Accumulator<T> total_before(const DistanceArgs& args, const ConstantPart& part, int64_t i) {
  if (part.waiting == nullptr || part.length == part.most) return 0;
  return waiting_of<T>(args, part, i).fold(part.begin / part.most);
}

template <class T>
__device__ __forceinline__ void store_part(const DistanceArgs& args, const ConstantPart& part, int64_t i,
                                           Accumulator<T> total) {
  if (part.waiting != nullptr && part.length == part.most) {
    const auto waiting = waiting_of<T>(args, part, i);
    const int64_t index = part.begin / part.most;
    waiting.push(total, index);
    if (part.begin + part.length < args.centers_count) return;
    total = waiting.fold(index + 1);
  }
  static_cast<T*>(args.output)[i] = rounded<T>(total);
}

}  // namespace
}  // namespace torch_reductions::cuda::distance
