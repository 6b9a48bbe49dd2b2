// Products of a few rows, whose columns are read in place: each is used too rarely for packing to pay.
#pragma once
#include "ordered.h"
#include "ordered_pack.h"

namespace torch_reductions::cpu::matmul {
namespace {

constexpr int64_t kSkinnySums = 2048;  // in the first-level cache, beside what is read

// H rows, `a` packed as [steps][H], and `panels` whole panels of columns, which are neighbours in memory, over k
// elements. The sums of each panel are laid out as chain() leaves them. Several steps are taken at a time, so that sums
// are loaded and stored rarely, and memory is read along its rows.
template <class S, int H>
__attribute__((noinline)) void skinny_along_lanes(const WordOf<S>* a, Lanes<S> b, int64_t panels, int64_t k,
                                                  typename StepOf<S>::Sum* sums) {
  using Step = StepOf<S>;
  using Sum = typename Step::Sum;
  constexpr int W = kLanes<Sum>, kDepth = Step::kDepth, kAtOnce = H == 1 ? 8 : kVectorBytes == 64 && H == 2 ? 8 : 4;
  const auto take = [&]<int G>(std::integral_constant<int, G>, int64_t step, int64_t k_stride) {
    Vector<Sum> left[G][H];
#pragma GCC unroll 8
    for (int g = 0; g < G; g++) {
#pragma GCC unroll 4
      for (int h = 0; h < H; h++) left[g][h] = splat(a[(step + g) * H + h]);
    }
    const S* from = b.at + step * kDepth * b.k_stride;
    Sum* to = sums;
    for (int64_t q = 0; q < panels; q++, to += H * kVectors * W) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; v++, from += W) {
        Vector<Sum> sum[H];
#pragma GCC unroll 4
        for (int h = 0; h < H; h++) sum[h] = step == 0 ? Vector<Sum>{} : load(to + (h * kVectors + v) * W);
#pragma GCC unroll 8
        for (int g = 0; g < G; g++) {
          const auto right = words_along_lanes(from + g * kDepth * b.k_stride, k_stride);
#pragma GCC unroll 4
          for (int h = 0; h < H; h++) sum[h] = Step::apply(left[g][h], right, sum[h]);
        }
#pragma GCC unroll 4
        for (int h = 0; h < H; h++) store(to + (h * kVectors + v) * W, sum[h]);
      }
    }
  };
  const int64_t whole = k / kDepth;
  int64_t step = 0;
  if (k == 0) __builtin_memset(sums, 0, sizeof(Sum) * panels * H * kVectors * W);
  for (; step + kAtOnce <= whole; step += kAtOnce) take(std::integral_constant<int, kAtOnce>(), step, b.k_stride);
  for (; step < whole; step++) take(std::integral_constant<int, 1>(), step, b.k_stride);
  // Half a pair: the other half of a is 0, so that the other half of b does not matter.
  if (step * kDepth < k) take(std::integral_constant<int, 1>(), step, 0);
}

// The same for up to one panel of `taken` columns, each contiguous along k: blocks are transposed in registers.
template <class S, int H>
__attribute__((noinline)) void skinny_along_k(const WordOf<S>* a, Lanes<S> b, int64_t taken, int64_t k,
                                              typename StepOf<S>::Sum* sums) {
  using Step = StepOf<S>;
  using Word = typename Step::Word;
  using Sum = typename Step::Sum;
  constexpr int W = kLanes<Sum>, kDepth = Step::kDepth;
  const int64_t vectors = (taken + W - 1) / W, whole = k / kDepth / W * W, steps = (k + kDepth - 1) / kDepth;
  for (int64_t v = 0; v < vectors; v++) {
    const LanesAlongK<S> lanes(b.at + v * W * b.stride, b.stride, taken - v * W);
    Vector<Sum> sum[H] = {};
    for (int64_t step = 0; step < whole; step += W) {
      Vector<Word> block[W];
      lanes.load(step * kDepth, block);
      lanes.prefetch(W * b.stride + step * kDepth);
#pragma GCC unroll 16
      for (int r = 0; r < W; r++) {
#pragma GCC unroll 4
        for (int h = 0; h < H; h++) sum[h] = Step::apply(splat(a[(step + r) * H + h]), block[r], sum[h]);
      }
    }
    for (int64_t step = whole; step < steps; step++) {
      Word right[W];
      for (int i = 0; i < W; i++) right[i] = word(lanes.lanes[i] + step * kDepth, 1, k - step * kDepth);
#pragma GCC unroll 4
      for (int h = 0; h < H; h++) sum[h] = Step::apply(splat(a[step * H + h]), load(right), sum[h]);
    }
#pragma GCC unroll 4
    for (int h = 0; h < H; h++) store(sums + (h * vectors + v) * W, sum[h]);
  }
}

// Both functions for each number of rows.
template <class S>
struct SkinnyProducts {
  using Run = void (*)(const WordOf<S>*, Lanes<S>, int64_t, int64_t, typename StepOf<S>::Sum*);
  Run along_lanes[kSkinnyRows], along_k[kSkinnyRows];

  template <std::size_t... h>
  constexpr explicit SkinnyProducts(std::index_sequence<h...>)
      : along_lanes{skinny_along_lanes<S, h + 1>...}, along_k{skinny_along_k<S, h + 1>...} {}
};
template <class S>
constexpr SkinnyProducts<S> kSkinnyProducts{std::make_index_sequence<kSkinnyRows>()};

}  // namespace
}  // namespace torch_reductions::cpu::matmul
