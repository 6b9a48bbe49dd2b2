// Lines of at most `Most` elements, a thread each: what scan_columns would do in shared memory happens in registers,
// and a position that is not there costs nothing.
//
// Local:   scan_short_columns (16 bytes): of 32 floats that are dear to combine, so that four blocks fit
#pragma once
#include "../../../common/ceil_div.h"
#include "../../primitives/fast_div.cuh"
#include "../../primitives/launch.h"
#include "lines.cuh"
#include "mask.cuh"
#include "tree.cuh"

namespace torch_reductions::cuda::scan {

inline constexpr int kShortThreads = 256, kShort = 8, kMostShort = 16;
inline constexpr int kMostDearShort = 32;  // where to combine is dear

// x[i] becomes the block that ends at i, for i < n, as blocks_of_run() does.
template <class Op, int Most>
__device__ __forceinline__ void blocks_of_line(typename Op::Value (&x)[Most], int n) {
#pragma unroll
  for (int i = 1; i < Most; i++) {
    if (i >= n) break;
#pragma unroll
    for (int half = 1; i & half; half *= 2) x[i] = Op::combine(x[i - half], x[i]);
  }
}

// Hides what the mask hides of the n elements of line [o, i] from position `begin` on.
template <class S, int N>
__device__ __forceinline__ void hide_elements(const S& source, const Lines& lines, typename S::Value (&x)[N], int64_t o,
                                              int64_t i, int64_t begin, int n) {
  if (!masks<typename S::Value>(lines)) return;
  const int64_t step = lines.reverse ? -lines.mask.strides.length : lines.mask.strides.length;
  const auto hidden = hidden_bits<uint32_t>(lines.mask.at(o, lines.element(begin), i), step, n);
#pragma unroll
  for (int k = 0; k < N; k++)
    if (hidden >> k & 1) x[k] = hidden_value(source);
}

// Blocks of a multiprocessor, where ptxas would take some registers more.
template <class Op, int Most>
inline constexpr int kShortBlocks = kIsDear<Op> && Most == kMostDearShort && sizeof(typename Op::Value) == 4 ? 4 : 0;

// x[i], the block that ends at i, becomes the fold of all that ends there, for i < n.
template <class Op, int Most>
__device__ __forceinline__ void folds_of_line(typename Op::Value (&x)[Most], int n, const SoFar<Op>& before) {
#pragma unroll
  for (int i = 0; i < Most; i++) {
    if (i >= n) break;
    const int start = i & (i + 1);  // of the block that ends at i
    if (start > 0) x[i] = Op::combine(x[start > 0 ? start - 1 : 0], x[i]);
    else if (before.there) x[i] = Op::combine(before.value, x[i]);
  }
}

// put(the total of n <= Most elements), where n is a power of two.
template <class Value, int Most, class Put>
__device__ __forceinline__ void put_total_of(const Value (&x)[Most], int n, Put put) {
#pragma unroll
  for (int size = 1; size <= Most; size *= 2)
    if (n == size) put(x[size - 1]);
}

// Stores the total of line `line`, if the call asks for it.
template <class Value, int Most>
__device__ __forceinline__ void store_total(const Lines& lines, const Value (&x)[Most], int n, int64_t line) {
  if (gives_totals<Value>(lines))
    put_total_of(x, n, [&](Value total) { static_cast<Value*>(lines.totals)[line] = total; });
}

template <class S, int Most>
__global__ void __launch_bounds__(kShortThreads, kShortBlocks<typename S::Op, Most>)
    scan_short_columns(const __grid_constant__ S source, const __grid_constant__ Lines lines,
                       const __grid_constant__ FastDiv inner, int64_t count) {
  using Op = typename S::Op;
  using Value = typename S::Value;
  using Result = typename ResultOf<S>::type;
  const int64_t line = int64_t(blockIdx.x) * kShortThreads + threadIdx.x;
  if (line >= count) return;
  const int64_t o = inner.quotient(line, lines.inner);
  const int64_t i_of_outer = line - o * lines.inner;
  const int n = int(lines.length), results = int(lines.results);

  const char* from =
      lines.input + o * lines.outer_bytes + i_of_outer * lines.inner_bytes + lines.element(0) * lines.length_bytes;
  const int64_t next = lines.reverse ? -lines.length_bytes : lines.length_bytes;
  Value x[Most];
  load_elements(source, x, from, next, n, 0);
  hide_elements(source, lines, x, o, i_of_outer, 0, n);
  blocks_of_line<Op>(x, n);
  store_total(lines, x, n, line);
  SoFar<Op> before;
  if (lines.before != nullptr) before = {value_before(source, lines, line), true};
  const Value empty = before.there ? before.value : empty_value(source);
  folds_of_line<Op>(x, n, before);

  const int64_t none = IsIndexed<Value>::value ? index_before(lines, line) : -1;
  const int64_t row = lines.reverse ? -lines.inner : lines.inner;
  const int64_t at = (o * lines.results + lines.result(0)) * lines.inner + i_of_outer;
  Result* to = reinterpret_cast<Result*>(lines.output) + at;
  int64_t* index = IsIndexed<Value>::value ? lines.indices + at : nullptr;
  const auto store = [&](Value value) {
    *to = result_of(source, value);
    to = opaque(to + row);
    if constexpr (IsIndexed<Value>::value) {
      *index = index_of(lines, value, none);
      index = opaque(index + row);
    }
  };
  if (lines.exclusive && results > 0) store(empty);
#pragma unroll
  for (int i = 0; i < Most; i++)
    if (i < n && i + lines.exclusive < results) store(x[i]);
}

// A thread for each line of `outer` times lines.inner.
template <class Kernel, class S, class... Rest>
void launch_thread_per_line(Kernel kernel, int64_t outer, Context& context, const S& source, const Lines& lines,
                            const Rest&... rest) {
  const int64_t count = outer * lines.inner, blocks = ceil_div(count, int64_t(kShortThreads));
  if (blocks > INT32_MAX) fail("more than 2^39 lines in one launch");
  launch(kernel, unsigned(blocks), kShortThreads, 0, context.stream, source, lines, rest..., FastDiv(lines.inner),
         count);
}

}  // namespace torch_reductions::cuda::scan
