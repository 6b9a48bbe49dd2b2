// Lines of at most `Most` steps and any strides, a thread each, as in scan/ordered/short_columns.cuh: all its loads are
// in flight together.
#pragma once
#include "../../scan/ordered/short_columns.cuh"
#include "layouts.cuh"

namespace torch_reductions::cuda::recurrence {

// Of a reverse recurrence the lines are turned round. inner: of lines.inner.
template <class T, int Most>
__global__ void __launch_bounds__(kShortThreads)
    recur_short_columns(const __grid_constant__ RecurrenceLines lines, const __grid_constant__ FastDiv inner) {
  using Number = Native<T>;
  using Op = Linear<Number>;
  const int64_t line = int64_t(blockIdx.x) * kShortThreads + threadIdx.x;
  if (line >= lines.count) return;
  const int64_t o = inner.quotient(line, lines.inner), i = line - o * lines.inner;
  const int n = int(lines.length);
  uint32_t gate[Most][(sizeof(T) + 3) / 4] = {}, token[Most][(sizeof(T) + 3) / 4] = {};
  const auto load = [&](auto& words, const char* data, const Strides& bytes) {
    const char* from = data + o * bytes.outer + i * bytes.inner;
#pragma unroll
    for (int k = 0; k < Most; k++, from = opaque(from + bytes.length))
      if (k < n) load_words<sizeof(T)>(words[k], from);
  };
  load(gate, lines.gates, lines.gate_bytes), load(token, lines.tokens, lines.token_bytes);
  typename Op::Value x[Most];
#pragma unroll
  for (int k = 0; k < Most; k++) x[k] = {element<T>(gate[k], 0), element<T>(token[k], 0)};
  blocks_of_line<Op>(x, n);
  put_total_of(x, n, [&](typename Op::Value all) { put_total(lines, line, all); });
  folds_of_line<Op>(x, n, before_line<Number>(lines, line));
  const Number h = initial_state<T>(lines, line);
  Number y[Most];
#pragma unroll
  for (int k = 0; k < Most; k++) y[k] = lines.initial != nullptr ? Op::apply(x[k], h) : x[k].token;
  T results[Most];
  narrow(results, y);
  char* to = lines.output + o * lines.output_bytes.outer + i * lines.output_bytes.inner;
#pragma unroll
  for (int k = 0; k < Most; k++, to = opaque(to + lines.output_bytes.length))
    if (k < n) *reinterpret_cast<T*>(to) = results[k];
}

template <class T>
void launch_short_columns(Context& context, const RecurrenceLines& lines) {
  const auto kernel = lines.length <= kShort ? &recur_short_columns<T, kShort> : &recur_short_columns<T, kMostShort>;
  launch(kernel, ceil_div(lines.count, int64_t(kShortThreads)), kShortThreads, 0, context.stream, lines,
         FastDiv(lines.inner));
}

}  // namespace torch_reductions::cuda::recurrence
