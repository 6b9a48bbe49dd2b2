// What the emulated instructions compute, against plain loops. No faults: both twins are the same.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>

#include "../../../../csrc/common/tensor_step.h"
#include "fault.h"

namespace {
using namespace emulator::faults;

template <class T>
__global__ void shuffles(T* out) {
  const int lane = int(threadIdx.x);
  const T own = T(lane);
  out[lane * 6 + 0] = __shfl_sync(~0u, own, 5);
  out[lane * 6 + 1] = __shfl_sync(~0u, own, lane + 1, 8);
  out[lane * 6 + 2] = __shfl_up_sync(~0u, own, 3);
  out[lane * 6 + 3] = __shfl_down_sync(~0u, own, 3, 16);
  out[lane * 6 + 4] = __shfl_xor_sync(~0u, own, 9);
  out[lane * 6 + 5] = __shfl_xor_sync(~0u, own, 17, 16);
}
template <class T>
std::string check_shuffles() {
  Buffer<T> out(32 * 6);
  launch(shuffles<T>, 1, 32, out);
  for (int lane = 0; lane < 32; lane++) {
    const int expected[] = {
        5,        lane / 8 * 8 + (lane + 1) % 8, lane < 3 ? lane : lane - 3, lane % 16 + 3 < 16 ? lane + 3 : lane,
        lane ^ 9, lane < 16 ? lane : lane ^ 17};
    for (int i = 0; i < 6; i++)
      if (float(out[lane * 6 + i]) != float(expected[i])) return "wrong result of shuffle " + std::to_string(i);
  }
  return "";
}
FAULT(shuffles_of_4_and_8_bytes, kNowhere, "") {
  for (const std::string& wrong : {check_shuffles<int>(), check_shuffles<float>(), check_shuffles<double>(),
                                   check_shuffles<long>(), check_shuffles<__half>(), check_shuffles<__nv_bfloat16>()})
    if (!wrong.empty()) return wrong;
  return "";
}

__global__ void votes(unsigned* out) {
  const unsigned lane = threadIdx.x;
  const int value = int(lane % 3) - 1;
  int all_same = 7;
  unsigned* own = out + lane * 12;
  own[0] = __ballot_sync(~0u, lane % 5 == 0);
  own[1] = unsigned(__any_sync(~0u, lane == 31)), own[2] = unsigned(__all_sync(~0u, lane < 31));
  own[3] = __match_any_sync(~0u, value), own[4] = __match_all_sync(~0u, value, &all_same), own[5] = unsigned(all_same);
  own[6] = unsigned(__reduce_add_sync(~0u, value)), own[7] = unsigned(__reduce_min_sync(~0u, value));
  own[8] = __reduce_max_sync(~0u, lane), own[9] = __reduce_or_sync(~0u, 1u << lane / 2);
  own[10] = __reduce_and_sync(~0u, ~(1u << lane % 4)), own[11] = __reduce_xor_sync(~0u, lane);
}
FAULT(votes_matches_and_reductions, kNowhere, "") {
  Buffer<unsigned> out(32 * 12);
  launch(votes, 1, 32, out);
  unsigned ballot = 0, same[3] = {};
  for (unsigned i = 0; i < 32; i++) ballot |= unsigned(i % 5 == 0) << i, same[i % 3] |= 1u << i;
  for (unsigned i = 0; i < 32; i++) {
    const unsigned expected[] = {ballot, 1, 0, same[i % 3], 0, 0, ~0u, ~0u, 31, 0xffff, ~15u, 0};
    for (int k = 0; k < 12; k++)
      if (out[i * 12 + k] != expected[k]) return "wrong result of vote " + std::to_string(k);
  }
  return "";
}

__global__ void bits(unsigned* out) {
  out[0] = __brev(0x00000013u), out[1] = unsigned(__clz(0x00010000)), out[2] = unsigned(__ffs(0x50));
  out[3] = unsigned(__popc(0xf0f0u)), out[4] = __funnelshift_r(0x44332211u, 0x88776655u, 8);
  out[5] = __funnelshift_l(0x44332211u, 0x88776655u, 8), out[6] = __byte_perm(0x33221100u, 0x77665544u, 0x7520);
  out[7] = __umulhi(0x80000000u, 6u), out[8] = unsigned(__clzll(1)), out[9] = __float_as_uint(1.0f);
  out[10] = unsigned(__double2hiint(__hiloint2double(5, 6))), out[11] = unsigned(max(3, 4u)) + unsigned(min(-1, 2) + 2);
}
FAULT(bit_operations, kNowhere, "") {
  Buffer<unsigned> out(12);
  launch(bits, 1, 1, out);
  const unsigned expected[] = {0xc8000000u, 15, 5, 8, 0x55443322u, 0x77665544u, 0x77552200u, 3, 63, 0x3f800000u, 5, 5};
  for (int i = 0; i < 12; i++)
    if (out[i] != expected[i]) return "wrong result of operation " + std::to_string(i);
  return "";
}

__global__ void atomics(unsigned* u, float* f, unsigned long long* wide) {
  atomicAdd(&u[0], 2u), atomicSub(&u[1], 1u), atomicMax(&u[2], threadIdx.x), atomicMin(&u[3], threadIdx.x);
  atomicOr(&u[4], 1u << threadIdx.x), atomicXor(&u[5], threadIdx.x), atomicAnd(&u[6], ~(1u << threadIdx.x));
  atomicInc(&u[7], 9u), atomicDec(&u[8], 9u);
  atomicAdd(f, 0.5f);
  atomicAdd(wide, 1ull << 40);
  atomicCAS(&u[9], 0u, threadIdx.x + 1);
}
FAULT(atomic_operations, kNowhere, "") {
  Buffer<unsigned> u(10);
  Buffer<float> f(1);
  Buffer<unsigned long long> wide(1);
  u[1] = 40, u[3] = 99, u[6] = ~0u;
  launch(atomics, 1, 32, u, f, wide);
  const unsigned expected[] = {64, 8, 31, 0, ~0u, 0, 0, 2, 8};
  for (int i = 0; i < 9; i++)
    if (u[i] != expected[i]) return "wrong result of atomic " + std::to_string(i);
  return expect(f[0] == 16 && wide[0] == 32ull << 40 && u[9] >= 1 && u[9] <= 32);
}

// One tile of D = A B + C. Fragments as in the PTX manual, written out again here.
__global__ void tensor_cores(const uint16_t* a, const uint16_t* b, float* c) {
  const int lane = int(threadIdx.x), group = lane / 4, pair = lane % 4 * 2;
  const auto two = [](const uint16_t* p, int step) { return uint32_t(p[step]) << 16 | p[0]; };
  const uint32_t fragment_a[4] = {two(a + group * 16 + pair, 1), two(a + (group + 8) * 16 + pair, 1),
                                  two(a + group * 16 + pair + 8, 1), two(a + (group + 8) * 16 + pair + 8, 1)};
  const uint32_t fragment_b[2] = {two(b + pair * 8 + group, 8), two(b + (pair + 8) * 8 + group, 8)};
  float sums[4] = {c[group * 8 + pair], c[group * 8 + pair + 1], c[(group + 8) * 8 + pair],
                   c[(group + 8) * 8 + pair + 1]};
  emulator::mma_16x8x16<torch_reductions::BFloat16>(sums, fragment_a, fragment_b);
  c[group * 8 + pair] = sums[0], c[group * 8 + pair + 1] = sums[1];
  c[(group + 8) * 8 + pair] = sums[2], c[(group + 8) * 8 + pair + 1] = sums[3];
}
FAULT(tensor_cores_of_bfloat16, kNowhere, "") {
  Buffer<uint16_t> a(16 * 16), b(16 * 8);
  Buffer<float> c(16 * 8);
  const auto bf16 = [](int x) { return uint16_t(std::bit_cast<uint32_t>(float(x)) >> 16); };
  const auto value_a = [](int row, int k) { return (row * 5 + k * 3) % 17 - 8; };
  const auto value_b = [](int k, int column) { return (k * 7 + column * 11) % 13 - 6; };
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < 16; k++) a[row * 16 + k] = bf16(value_a(row, k));
  for (int k = 0; k < 16; k++)
    for (int column = 0; column < 8; column++) b[k * 8 + column] = bf16(value_b(k, column));
  for (int i = 0; i < 128; i++) c[i] = float(i);
  launch(tensor_cores, 1, 32, a, b, c);
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++) {
      int sum = row * 8 + column;
      for (int k = 0; k < 16; k++) sum += value_a(row, k) * value_b(k, column);
      if (c[row * 8 + column] != float(sum)) return "wrong result at row " + std::to_string(row);
    }
  return "";
}

// The step's own arithmetic: 25 bits behind the largest term's point are kept, then all is cut to float32.
FAULT(arithmetic_of_a_tensor_step, kNowhere, "") {
  using namespace torch_reductions;
  const BFloat16 zero{0}, one{0x3f80};
  const auto step = [&](uint32_t accumulator, int scale) {
    TensorFactor a[kTensorStep];
    TensorFactors<1> b[kTensorStep];
    for (int k = 0; k < kTensorStep; k++) {
      a[k] = tensor_factor(k == 3 ? one : zero);
      const TensorFactor factor = tensor_factor(BFloat16{uint16_t(one.bits + (scale << 7))});  // 2^scale
      b[k] = {{factor.significand}, {factor.exponent}};
    }
    uint32_t sum[1] = {accumulator};
    tensor_step<BFloat16>(a, b, sum);
    return sum[0];
  };
  const auto of = [](float x) { return std::bit_cast<uint32_t>(x); };
  return expect(step(of(1), 0) == of(2) && step(of(-1), 0) == 0 && step(of(1), -24) == of(1) &&
                step(of(-1), -24) == of(-0x1.fffffep-1f) && step(of(-1), -26) == of(-1) &&
                step(0x7f800000, 0) == 0x7f800000 && step(0x7fc00000, 0) == 0x7fffffff);
}

__global__ void byte_tensor_cores(const int8_t* a, const int8_t* b, uint32_t* c) {
  const int lane = int(threadIdx.x), group = lane / 4, first = lane % 4 * 4;
  const auto four = [](const int8_t* p, int step) {
    return uint32_t(uint8_t(p[3 * step])) << 24 | uint32_t(uint8_t(p[2 * step])) << 16 |
           uint32_t(uint8_t(p[step])) << 8 | uint8_t(p[0]);
  };
  const uint32_t fragment_a[4] = {four(a + group * 32 + first, 1), four(a + (group + 8) * 32 + first, 1),
                                  four(a + group * 32 + first + 16, 1), four(a + (group + 8) * 32 + first + 16, 1)};
  const uint32_t fragment_b[2] = {four(b + first * 8 + group, 8), four(b + (first + 16) * 8 + group, 8)};
  for (int i = 0; i < 2; i++) {  // of signed factors and of unsigned ones
    uint32_t sums[4] = {~0u, ~0u, ~0u, ~0u};
    if (i == 0) emulator::mma_16x8x32<int8_t>(sums, fragment_a, fragment_b);
    else emulator::mma_16x8x32<uint8_t>(sums, fragment_a, fragment_b);
    for (int s = 0; s < 4; s++) c[i * 128 + (group + s / 2 * 8) * 8 + lane % 4 * 2 + s % 2] = sums[s];
  }
}
FAULT(tensor_cores_of_bytes, kNowhere, "") {
  Buffer<int8_t> a(16 * 32), b(32 * 8);
  Buffer<uint32_t> c(2 * 16 * 8);
  for (int i = 0; i < 16 * 32; i++) a[i] = int8_t(i * 89 + i / 7);
  for (int i = 0; i < 32 * 8; i++) b[i] = int8_t(i * 53 + i / 5);
  launch(byte_tensor_cores, 1, 32, a, b, c);
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++) {
      uint32_t sum = ~0u, without_sign = ~0u;
      for (int k = 0; k < 32; k++) {
        sum += uint32_t(a[row * 32 + k] * b[k * 8 + column]);
        without_sign += uint32_t(uint8_t(a[row * 32 + k]) * uint8_t(b[k * 8 + column]));
      }
      if (c[row * 8 + column] != sum || c[128 + row * 8 + column] != without_sign)
        return "wrong result at row " + std::to_string(row);
    }
  return "";
}

__global__ void double_tensor_cores(const double* a, const double* b, double* c) {
  const int lane = int(threadIdx.x), group = lane / 4, in_group = lane % 4;
  double fragment_a[8], fragment_b[4], sums[4];
  for (int i = 0; i < 8; i++) fragment_a[i] = a[(group + i % 2 * 8) * 16 + in_group + i / 2 * 4];
  for (int i = 0; i < 4; i++) fragment_b[i] = b[(in_group + i * 4) * 8 + group];
  for (int i = 0; i < 4; i++) sums[i] = c[(group + i / 2 * 8) * 8 + in_group * 2 + i % 2];
  emulator::mma_16x8x16(sums, fragment_a, fragment_b);
  for (int i = 0; i < 4; i++) c[(group + i / 2 * 8) * 8 + in_group * 2 + i % 2] = sums[i];
  const double half_a[4] = {fragment_a[0], fragment_a[1], fragment_a[2], fragment_a[3]};
  const double half_b[2] = {fragment_b[0], fragment_b[1]};
  double half[4] = {};
  emulator::mma_16x8x8(half, half_a, half_b);
  for (int i = 0; i < 4; i++) c[128 + (group + i / 2 * 8) * 8 + in_group * 2 + i % 2] = half[i];
}
FAULT(tensor_cores_of_float64, kNowhere, "") {
  Buffer<double> a(16 * 16), b(16 * 8), c(128 + 128, 0.25);
  for (int i = 0; i < 256; i++) a[i] = 1.0 / (i + 3);
  for (int i = 0; i < 128; i++) b[i] = 1.0 / (2 * i + 1);
  launch(double_tensor_cores, 1, 32, a, b, c);
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++) {
      double sum = 0.25, half = 0;
      for (int k = 0; k < 16; k++) sum = std::fma(a[row * 16 + k], b[k * 8 + column], sum);
      for (int k = 0; k < 8; k++) half = std::fma(a[row * 16 + k], b[k * 8 + column], half);
      if (c[row * 8 + column] != sum) return "wrong result at row " + std::to_string(row);
      if (c[128 + row * 8 + column] != half) return "wrong result of 16x8x8 at row " + std::to_string(row);
    }
  return "";
}

template <bool transposed>
__global__ void matrices(uint16_t* out) {
  __shared__ __align__(16) uint16_t shared[4][8][8];
  const int lane = int(threadIdx.x);
  for (int i = 0; i < 8; i++) shared[lane / 8][lane % 8][i] = uint16_t(lane * 8 + i);
  __syncwarp();
  uint32_t words[4];
  emulator::ldmatrix<transposed>(words, shared[lane / 8][lane % 8]);
  for (int i = 0; i < 4; i++) out[lane * 8 + i * 2] = uint16_t(words[i]), out[lane * 8 + i * 2 + 1] = words[i] >> 16;
}
template <bool transposed>
std::string check_matrices() {
  Buffer<uint16_t> out(256);
  launch(matrices<transposed>, 1, 32, out);
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 8; i++) {
      const int row = lane / 4, column = lane % 4 * 2 + i % 2;
      if (out[lane * 8 + i] != i / 2 * 64 + (transposed ? column * 8 + row : row * 8 + column)) return "wrong result";
    }
  return "";
}
FAULT(matrices_loaded_for_tensor_cores, kNowhere, "") { return check_matrices<false>() + check_matrices<true>(); }

}  // namespace
