// Which elements of [outer, length, inner] take part; the others count as the operator's identity.
#pragma once
#include <cstdint>

#include "dtype.h"

namespace torch_reductions {

// Distances from one element to the next, in elements; 0 where a dimension was expanded.
struct Strides {
  int64_t outer, length, inner;
};

struct Mask {
  const uint8_t* data;  // one byte per element, 0 where it is hidden; null: all take part
  Strides strides;

  HOST_DEVICE const uint8_t* at(int64_t outer, int64_t element, int64_t inner) const {
    return data + outer * strides.outer + element * strides.length + inner * strides.inner;
  }
  HOST_DEVICE bool hides(int64_t outer, int64_t element, int64_t inner) const {
    return *at(outer, element, inner) == 0;
  }
  // Just behind its last byte, where [outer, length, inner] has that many of each, none of them 0.
  const uint8_t* end(int64_t outer, int64_t length, int64_t inner) const {
    return data ? at(outer - 1, length - 1, inner - 1) + 1 : nullptr;
  }
};

}  // namespace torch_reductions
