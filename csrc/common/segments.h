// Packed segments along a dim: segment s is [offset s, offset s + 1), count + 1 offsets in all.
#pragma once
#include <cstdint>

#include "dtype.h"

namespace torch_reductions {

// On a GPU the offsets are not checked: whatever they are, a begin is clamped to [0, length], and no segment has a
// negative length.
struct Segments {
  const void* offsets;  // int32, or int64 where `wide`; contiguous, in the device's memory
  bool wide;
  int64_t count, length;

  HOST_DEVICE int64_t begin(int64_t s) const {
    const int64_t at = wide ? static_cast<const int64_t*>(offsets)[s] : static_cast<const int32_t*>(offsets)[s];
    return at < 0 ? 0 : at < length ? at : length;
  }
  HOST_DEVICE int64_t end(int64_t s) const {
    const int64_t from = begin(s), to = begin(s + 1);
    return from < to ? to : from;
  }
};

}  // namespace torch_reductions
