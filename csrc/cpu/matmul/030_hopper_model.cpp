// hopper_model
// Changes: computes what the tensor cores of an H100 or H200 compute, in integers: not the order of the other rungs.
// Costs:   a dozen integer operations per product, where floating point takes one or less.
// Gains:   a float16 or bfloat16 product has the GPU's bits on a machine without a GPU.
// Order:   steps of 16 of k, ascending, each one sum truncated to float32; chunks of 8192 are added left to right,
//          docs/order.md.
// Needs:   any processor; AVX2 is used where available. float16 and bfloat16.
// See:     csrc/common/tensor_step.h, the step; hopper_model_kernels.h, its chain; this file unpacks, and splits for
//          threads.
#include <algorithm>
#include <vector>

#include "../../common/ceil_div.h"
#include "../processor.h"
#include "hopper_model.h"
#include "ladder.h"
#include "output.h"

namespace torch_reductions::cpu::matmul {
namespace {

const HopperModel& hopper_model_kernels() {
#ifdef __x86_64__
  if (processor() >= Processor::avx2) return hopper_model_avx2;
#endif
  return hopper_model_baseline;
}

constexpr int64_t kRows = 64, kColumns = 8 * kModelColumns;  // of the result, for which operands are unpacked once

// A block of one batch's result, whose first element is (i, j). Operands are padded with zeros, which change nothing,
// as the last step is on the GPU.
template <class T, class Out>
void multiply_block(const MatmulArgs& args, ModelChain chain, int64_t batch, int64_t i, int64_t j) {
  const int64_t rows = std::min(kRows, args.m - i), columns = std::min(kColumns, args.n - j);
  const int64_t most = ceil_div(std::min(args.k, kTensorChunk), int64_t(kTensorStep)) * kTensorStep;
  std::vector<TensorFactor> a(size_t(rows * most));
  std::vector<TensorFactors<kModelColumns>> b{size_t(most)};
  std::vector<float> totals(size_t(rows * kColumns));
  for (int64_t begin = 0; begin < args.k; begin += kTensorChunk) {
    const int64_t length = std::min(kTensorChunk, args.k - begin), steps = ceil_div(length, int64_t(kTensorStep));
    const auto factor = [](const T* p, bool there) { return tensor_factor(there ? *p : T{0}); };
    for (int64_t r = 0; r < rows; r++) {
      const T* const from = element_of<T>(args.a, batch, i + r, begin);
      for (int64_t k = 0; k < steps * kTensorStep; k++) {
        a[size_t(r * most + k)] = factor(from + k * args.a.column_stride, k < length);
      }
    }
    for (int64_t first = 0; first < columns; first += kModelColumns) {
      for (int64_t k = 0; k < steps * kTensorStep; k++) {
        const T* const from = element_of<T>(args.b, batch, begin + k, j + first);
        for (int64_t c = 0; c < kModelColumns; c++) {
          const TensorFactor unpacked = factor(from + c * args.b.column_stride, k < length && first + c < columns);
          b[size_t(k)].significand[c] = unpacked.significand, b[size_t(k)].exponent[c] = unpacked.exponent;
        }
      }
      for (int64_t r = 0; r < rows; r++) {
        float sums[kModelColumns], *const to = &totals[size_t(r * kColumns + first)];
        chain(&a[size_t(r * most)], b.data(), steps, sums);
        for (int64_t c = 0; c < kModelColumns; c++) to[c] = begin == 0 ? sums[c] : to[c] + sums[c];
      }
    }
  }
  for (int64_t r = 0; r < rows; r++) write_products<Out>(args, batch, i + r, j, columns, &totals[size_t(r * kColumns)]);
}

}  // namespace

void hopper_model(const MatmulArgs& args, const Threads& threads) {
  const bool half = args.dtype == Dtype::float16;
  const ModelChain chain = half ? hopper_model_kernels().float16 : hopper_model_kernels().bfloat16;
  const int64_t across = ceil_div(args.n, kColumns), blocks = ceil_div(args.m, kRows) * across;
  threads.parallel_for(0, args.batch * blocks, 1, [&](int64_t begin, int64_t end) {
    with_product_types(args.dtype, args.output_dtype, [&](auto storage, auto output) {
      using T = typename decltype(storage)::type;
      using Out = typename decltype(output)::type;
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        for (int64_t block = begin; block < end; block++) {
          const int64_t batch = block / blocks, i = block % blocks / across * kRows, j = block % across * kColumns;
          multiply_block<T, Out>(args, chain, batch, i, j);
        }
      }
    });
  });
}

}  // namespace torch_reductions::cpu::matmul
