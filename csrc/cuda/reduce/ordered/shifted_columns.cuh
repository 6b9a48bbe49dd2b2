// Many columns of 4-byte elements whose rows are not aligned, such as (128, 4096, 4095) along dim 1.
#pragma once
#include "columns.cuh"

namespace torch_reductions::cuda::reduce {

// Columns of 4-byte elements whose rows are not aligned: a warp takes 128 neighbouring columns of a row by aligned
// 16-byte loads, and shifts them across lanes. Four bytes a lane would touch a fifth sector in every 128 bytes.
template <class T, class Operator>
struct Shifted : Input<T, Operator> {
  int column, columns;  // the thread's first of 4, and how many the row has
};
template <int V, int Log, class T, class Op>
__device__ __forceinline__ void column_block(const Shifted<T, Op>& source, typename Op::Value (&v)[V], const char* p,
                                             int64_t step, int64_t index) {
  static_assert(V == 4 && sizeof(T) == 4 && Log <= 3);
  constexpr int R = 1 << Log;
  const int lane = threadIdx.x & 31;
  const auto shift_of = [](const char* row) { return int(reinterpret_cast<uintptr_t>(row) & 15); };
  uint32_t words[R][8], over = 0;
#pragma unroll
  for (int i = 0; i < R; i++) {
    const char* row = p + i * step;
    uint32_t own[4] = {};
    if (source.column - (shift_of(row) >> 2) < source.columns) load_words<16>(own, row - shift_of(row));
#pragma unroll
    for (int k = 0; k < 4; k++) words[i][k] = own[k];
  }
  {  // what lane 31 needs from beyond the warp's vectors: lane 4 i + k loads word k of row i
    const int k = lane & 3;
    const char* row = p + (lane >> 2) * step + (31 - lane) * 16;
    const int beyond = 4 - (shift_of(row) >> 2) + k;  // columns after lane 31's first
    if (lane < 4 * R && k < shift_of(row) >> 2 && source.column + (31 - lane) * 4 + beyond < source.columns) {
      uint32_t word[1];
      load_words<4>(word, row - shift_of(row) + 16 + 4 * k);
      over = word[0];
    }
  }
#pragma unroll
  for (int i = 0; i < R; i++) {
    const int shift = shift_of(p + i * step);
    if (shift != 0) {  // uniform in the warp
#pragma unroll
      for (int k = 0; k < 3; k++) {
        const uint32_t next = __shfl_down_sync(kFullWarp, words[i][k], 1),
                       last = __shfl_sync(kFullWarp, over, 4 * i + k);
        words[i][4 + k] = lane == 31 ? last : next;
      }
      words[i][7] = 0;
      realign<false>(words[i], shift);
    }
  }
  column_trees<R, V>(source, v, words, index);
}

// A block per tile of 128 columns of one outer index, all of the length.
template <class T, class Op>
__global__ void __launch_bounds__(256, 2)
    shifted_columns(Input<T, Op> input, const char* data, Output out, int64_t outer_bytes, int64_t length_bytes,
                    int64_t length, int64_t inner, ColumnConfig config) {
  constexpr int pitch = 128;
  const unsigned outer = blockIdx.x / config.blocks_across, tile = blockIdx.x - outer * config.blocks_across;
  const int lane = threadIdx.x & 31,
            left = int(inner - int64_t(tile) * pitch < pitch ? inner - int64_t(tile) * pitch : pitch);
  const Shifted<T, Op> source{input, lane * 4, left};
  const char* p = data + outer * outer_bytes + (int64_t(tile) * pitch + lane * 4) * int64_t(sizeof(T));
  const auto* const digit = column_fold<4, false>(source, p, length_bytes, length, 0, 32, config, memory);
  for (int column = threadIdx.x; column < left; column += blockDim.x)
    out.store<Op>(outer * inner + int64_t(tile) * pitch + column,
                  fold_set_digits<Op>(Op::identity(), digit + column, length, pitch));
}

}  // namespace torch_reductions::cuda::reduce
