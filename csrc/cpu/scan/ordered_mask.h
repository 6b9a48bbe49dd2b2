// Copies a tile with the operator's identity in place of the masked elements: the copy is scanned like any other tile.
#pragma once
#include "../vector.h"
#include "ordered.h"

namespace torch_reductions::cpu::scan {
namespace {

// Copies n elements, `stride` apart. Bits is the unsigned type of the element's size.
template <class Bits>
__attribute__((noinline)) void hide(const Bits* input, int64_t stride, const uint8_t* mask, int64_t mask_stride,
                                    int64_t n, Bits hidden, Bits* to) {
  if (stride == 1 && mask_stride == 1) {
    for (int64_t i = 0; i < n; i++) to[i] = mask[i] ? input[i] : hidden;
  } else if (stride == -1 && mask_stride == -1) {
    for (int64_t i = 0; i < n; i++) to[i] = mask[-i] ? input[-i] : hidden;
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = mask[i * mask_stride] ? input[i * stride] : hidden;
  }
}

template <class Bits>
void hide_elements(const ScanStrip& s, const void* hidden, void* to) {
  const Bits* const input = static_cast<const Bits*>(s.input);
  const int64_t rows = s.columns ? s.length : s.lines, n = s.columns ? s.lines : s.length;
  for (int64_t r = 0; r < rows; r++) {
    const auto at = [&](int64_t line, int64_t step) { return r * (s.columns ? step : line); };
    hide(input + at(s.input_line, s.input_step), s.columns ? s.input_line : s.input_step,
         s.mask + at(s.mask_line, s.mask_step), s.columns ? s.mask_line : s.mask_step, n,
         *static_cast<const Bits*>(hidden), static_cast<Bits*>(to) + r * n);
  }
}

template <int kBytes>
using BitsOf =
    std::conditional_t<kBytes == 1, uint8_t,
                       std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

}  // namespace
}  // namespace torch_reductions::cpu::scan
