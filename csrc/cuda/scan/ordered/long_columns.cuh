// Lines that are neighbours, longer than short_columns.cuh takes, and so many that each has a thread, which goes along
// its line, some elements at a time: of extremes, which have no order; and where to combine is dear, with the order
// kept by a binary counter, so that each element takes two steps and no lane waits for another.
#pragma once
#include "short_columns.cuh"

namespace torch_reductions::cuda::scan {

// The elements of a thread at once; where to combine is dear the levels of its counter, and blocks of a multiprocessor.
template <class Op, class Value = typename Op::Value>
inline constexpr int kOfThread = kExtreme<Op>         ? kShort
                                 : sizeof(Value) == 4 ? 16
                                                      : 8;
inline constexpr int kLongLevels = 9;
template <class Op>
inline constexpr int64_t kMostLongColumn = kExtreme<Op> ? INT64_MAX : int64_t(kOfThread<Op>) << kLongLevels;

template <class Op, class Value = typename Op::Value>
inline constexpr int kBlocksOfThreads = kIsDear<Op> && sizeof(Value) == 4 ? 3 : 0;

// Blocks of 2^k runs, of which those in the binary digits of the number of runs so far wait, and the folds of what
// stands before each.
template <class Op>
struct RunCounter {
  using Value = typename Op::Value;
  Value wait[kLongLevels], start[kLongLevels];

  // Run `run`, whose block is `block`, and before which stands `before`. They become the block that ends with it, and
  // what stands before that.
  template <int Level = 0>
  __device__ __forceinline__ void push(int run, Value& block, Value& before) {
    if constexpr (Level < kLongLevels) {
      if (run >> Level & 1) {  // uniform
        block = Op::combine(wait[Level], block), before = start[Level];
        push<Level + 1>(run, block, before);
      } else {
        wait[Level] = block, start[Level] = before;
      }
    }
  }
};

template <class S>
__global__ void __launch_bounds__(kShortThreads, kBlocksOfThreads<typename S::Op>)
    scan_long_columns(const __grid_constant__ S source, const __grid_constant__ Lines lines,
                      const __grid_constant__ FastDiv inner, int64_t count) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using Result = typename ResultOf<S>::type;
  constexpr int kAtOnce = kOfThread<Op>;
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
  int64_t* index = IsIndexed<Value>::value ? lines.indices + at : nullptr;
  const auto store = [&](Value value) {
    *to = result_of(source, value);
    to = opaque(to + row);
    if constexpr (IsIndexed<Value>::value) {
      *index =
          value.index < 0 ? index_before(lines, line) : front + (lines.reverse ? -int64_t(value.index) : value.index);
      index = opaque(index + row);
    }
  };

  SoFar<Op> so_far;
  if (lines.before != nullptr) so_far = {value_before(source, lines, line), true};
  if (lines.exclusive && results > 0) store(so_far.there ? so_far.value : empty_value(source));
  [[maybe_unused]] RunCounter<Op> counter;
#pragma unroll 1
  for (int begin = 0; begin < length; begin += kAtOnce) {
    Value x[kAtOnce];
    load_elements(source, x, from, next, length - begin, begin);
    hide_elements(source, lines, x, o, i_of_outer, begin, min(length - begin, kAtOnce));
    if constexpr (kExtreme<Op>) {
#pragma unroll
      for (int i = 0; i < kAtOnce; i++) {
        if (begin + i >= length) break;
        so_far.append(x[i]);
        if (begin + i + lines.exclusive < results) store(so_far.value);
      }
    } else {
      const SoFar<Op> before = so_far;
      blocks_of_line<Op>(x, length - begin);
      if (length - begin >= kAtOnce) {
        const int run = begin / kAtOnce;
        Value block = x[kAtOnce - 1], start = before.value;
        counter.push(run, block, start);
        const bool begins_line = (run & (run + 1)) == 0;
        so_far = {begins_line && lines.before == nullptr ? block : Op::combine(start, block), true};
        if (gives_totals<Value>(lines) && begins_line && begin + kAtOnce == length)
          static_cast<Value*>(lines.totals)[line] = block;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; i++) {
        if (begin + i >= length) break;
        const int start = i & (i + 1);  // of the block that ends at i
        if (i == kAtOnce - 1) x[i] = so_far.value;
        else if (start > 0) x[i] = Op::combine(x[start > 0 ? start - 1 : 0], x[i]);
        else if (before.there) x[i] = Op::combine(before.value, x[i]);
        if (begin + i + lines.exclusive < results) store(x[i]);
      }
    }
  }
}

}  // namespace torch_reductions::cuda::scan
