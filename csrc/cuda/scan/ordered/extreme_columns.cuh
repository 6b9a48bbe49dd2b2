// Extremes of lines that are neighbours and so many that each has a thread: extremes have no order, so that a thread
// goes along its line, some elements at a time.
#pragma once
#include "short_columns.cuh"

namespace torch_reductions::cuda::scan {

// inner: of lines.inner, if that is less than 2^31.
template <class S>
__global__ void __launch_bounds__(kShortThreads)
    scan_extreme_columns(const __grid_constant__ S source, const __grid_constant__ Lines lines,
                         const __grid_constant__ FastDiv inner, int64_t count) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using Result = typename ResultOf<S>::type;
  constexpr int kAtOnce = kShort;
  const int64_t line = int64_t(blockIdx.x) * kShortThreads + threadIdx.x;
  if (line >= count) return;
  const int64_t o = inner.quotient(line, lines.inner);
  const int64_t i_of_outer = line - o * lines.inner, first = lines.element(0);
  const int length = int(lines.length), results = int(lines.results);
  const char* from = lines.input + o * lines.outer_bytes + i_of_outer * lines.inner_bytes + first * lines.length_bytes;
  const int64_t next = lines.reverse ? -lines.length_bytes : lines.length_bytes;
  const int64_t front = lines.front + first, row = lines.reverse ? -lines.inner : lines.inner;
  const int64_t at = (o * lines.results + lines.result(0)) * lines.inner + i_of_outer;
  Result* to = reinterpret_cast<Result*>(lines.output) + at;
  int64_t* index = lines.indices + at;
  const auto store = [&](Value value) {
    *to = result_of(source, value);
    to = opaque(to + row);
    *index =
        value.index < 0 ? index_before(lines, line) : front + (lines.reverse ? -int64_t(value.index) : value.index);
    index = opaque(index + row);
  };

  SoFar<Op> so_far;
  if (lines.before != nullptr) so_far = {value_before(source, lines, line), true};
  if (lines.exclusive && results > 0) store(so_far.there ? so_far.value : empty_value(source));
#pragma unroll 1
  for (int begin = 0; begin < length; begin += kAtOnce) {
    Value x[kAtOnce];
    load_elements(source, x, from, next, length - begin, begin);
    if (masks<Value>(lines)) {
      const int64_t step = lines.reverse ? -lines.mask.strides.length : lines.mask.strides.length;
      const auto hidden =
          hidden_bits<uint32_t>(lines.mask.at(o, lines.element(begin), i_of_outer), step, min(length - begin, kAtOnce));
#pragma unroll
      for (int i = 0; i < kAtOnce; i++)
        if (hidden >> i & 1) x[i] = hidden_value(source);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; i++) {
      if (begin + i >= length) break;
      so_far = {so_far.there ? Op::combine(so_far.value, x[i]) : x[i], true};
      if (begin + i + lines.exclusive < results) store(so_far.value);
    }
  }
}

}  // namespace torch_reductions::cuda::scan
