// The vector code of `ordered` for AVX-512 with BF16, which multiplies pairs of bfloat16 and adds them to a sum in one
// instruction.
#include "ordered_kernels.h"

namespace torch_reductions::cpu::matmul {

constexpr MatmulKernels matmul_avx512bf16 = make_matmul_kernels<BFloat16PairStep>();

// Intel documents the order and the roundings; AMD's Zen 5 has the same. An emulator may have others: another order
// changes a tenth of these sums.
bool has_ordered_bfloat16_pairs() {
  uint32_t state = 1;
  const auto random = [&](uint32_t varied, uint32_t least) {
    Vector<uint32_t> bits;
    for (int i = 0; i < kLanes<uint32_t>; i++) {
      state = state * 1664525 + 1013904223;
      bits[i] = ((state ^ state >> 15) & varied) + least;
    }
    return bits;
  };
  for (int i = 0; i < 64; i++) {
    const auto a = random(0x83ff83ff, 0x3c003c00), b = random(0x83ff83ff, 0x3c003c00);  // of 2^-7 to 2
    const auto sum = as<Vector<float>>(random(0x87ffffff, 0x34000000));                 // of 2^-23 to 2^-7
    const auto one = as<Vector<uint32_t>>(BFloat16PairStep::apply(a, b, sum));
    const auto two = as<Vector<uint32_t>>(BFloat16TwoSteps::apply(a, b, sum));
    if (__builtin_memcmp(&one, &two, sizeof one) != 0) return false;
  }
  return true;
}

}  // namespace torch_reductions::cpu::matmul
