#pragma once
#include "../../common/mask.h"

namespace torch_reductions::cuda {

// Do lines [outer, inner] fill a part of memory together, as those of a contiguous tensor do?
inline bool lie_together(const Strides& s, int64_t outer, int64_t length, int64_t inner) {
  return (inner == 1 || s.inner == 1) && (length == 1 || s.length == inner) &&
         (outer == 1 || s.outer == length * inner);
}

}  // namespace torch_reductions::cuda
