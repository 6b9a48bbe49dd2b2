// Lines of which each is better scanned as one packed segment: of values of 8 bytes, so few side by side that the
// kernels of lines have little of a row at a time; of 16 bytes, long ones. Measured on an H200; the order is the same.
#pragma once
#include "../../../common/segments.h"
#include "../../primitives/lie_together.h"

namespace torch_reductions::cuda::scan {

inline constexpr int64_t kLongLine = 4000, kLongWideLine = 10000;

// wide: of values of 16 bytes. Longer lines would have too many tiles. Each outer may lie anywhere.
inline bool are_few_long_lines(const Strides& strides, int64_t outer, int64_t length, int64_t inner, bool wide) {
  if (length > INT32_MAX || inner == 1 || !lie_together(strides, 1, length, inner)) return false;
  if (wide && length >= kLongWideLine) return true;
  return length >= kLongLine && inner <= (outer * length * inner < 1 << 22 ? 3 : 4);
}

// The segments of a line, or the one that it is, whose ends nobody has to read.
inline Segments segments_of_line(const Segments& segments, int64_t length) {
  return segments.count > 1 ? segments : Segments{.offsets = nullptr, .wide = false, .count = 1, .length = length};
}

}  // namespace torch_reductions::cuda::scan
