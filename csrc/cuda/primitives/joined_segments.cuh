// The packed segments of lines that follow one another in memory, as those of one line.
#pragma once
#include "../../common/segments.h"
#include "fast_div.cuh"

namespace torch_reductions::cuda {

// Every line has the same offsets; whatever these are, its first segment begins where it does.
struct JoinedSegments {
  Segments line;
  int64_t count, length;  // of all lines
  FastDiv by_count;

  explicit JoinedSegments(const Segments& line, int64_t lines = 1)
      : line(line), count(lines * line.count), length(lines * line.length) {
    if (lines > 1) by_count = FastDiv(line.count);
  }

  // Are the segments of so many lines few enough?
  static bool may_join(const Segments& line, int64_t lines) { return lines > 1 && lines <= INT32_MAX / line.count; }

  __device__ __forceinline__ int64_t begin(int64_t s) const {
    if (count == line.count) return line.begin(s);
    const unsigned before = by_count.div(unsigned(s)), of_line = unsigned(s) - before * by_count.divisor;
    const int64_t begin = line.begin(of_line);  // no branch, so that loads are in flight together
    return before * line.length + (of_line == 0 ? 0 : begin);
  }
  __device__ __forceinline__ int64_t end(int64_t s) const {
    const int64_t from = begin(s), to = begin(s + 1);
    return from < to ? to : from;
  }
};

}  // namespace torch_reductions::cuda
