// What the rungs with constant memory have in common on the device: the bank, and the totals between its parts.
#pragma once
#include "constants.h"
#include "points.cuh"

namespace torch_reductions::cuda {
namespace {

__constant__ __align__(16) unsigned char bank[kBankBytes];  // a module's own

template <class T>
__device__ __forceinline__ const T* constants_of(const ConstantPart& part) {
  return reinterpret_cast<const T*>(bank + part.slot * kSlotBytes);
}

template <class T>
__device__ __forceinline__ Accumulator<T> total_before(const ConstantPart& part, int64_t i) {
  return part.begin == 0 ? Accumulator<T>(0) : static_cast<const Accumulator<T>*>(part.totals)[i];
}

template <class T>
__device__ __forceinline__ void store_total(const DistanceArgs& args, const ConstantPart& part, int64_t i,
                                            Accumulator<T> total) {
  if (part.begin + part.length == part.elements) static_cast<T*>(args.output)[i] = rounded<T>(total);
  else static_cast<Accumulator<T>*>(part.totals)[i] = total;
}

}  // namespace
}  // namespace torch_reductions::cuda
