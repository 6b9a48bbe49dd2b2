// The actions of mma.h, run once for the 32 lanes that met.
#include "../device/mma.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "../../../../csrc/common/tensor_step.h"
#include "observer.h"

namespace emulator {
namespace {

void check_whole(unsigned lanes) {
  if (lanes != ~0u) fault("mma.sync without lanes " + hex(~lanes));
}

template <class T>
T* part(void* const (&operands)[kWarpSize], unsigned lane, const void* Fragments::* which, int i) {
  return static_cast<T*>(const_cast<void*>(static_cast<Fragments*>(operands[lane])->*which)) + i;
}

// Factors of type T as the lanes hold them, four bytes of a row of a or of a column of b in a word: the lane, its word, and
// where in it.
template <class T>
T factor_of_a(void* const (&operands)[kWarpSize], int row, int k) {
  constexpr int kInWord = 4 / sizeof(T), kHalf = 4 * kInWord;
  const unsigned lane = unsigned(row % 8 * 4 + k % kHalf / kInWord);
  const uint32_t word = *part<const uint32_t>(operands, lane, &Fragments::a, row / 8 + k / kHalf * 2);
  return std::bit_cast<std::array<T, kInWord>>(word)[size_t(k % kInWord)];
}
template <class T>
T factor_of_b(void* const (&operands)[kWarpSize], int k, int column) {
  constexpr int kInWord = 4 / sizeof(T), kHalf = 4 * kInWord;
  const unsigned lane = unsigned(column * 4 + k % kHalf / kInWord);
  const uint32_t word = *part<const uint32_t>(operands, lane, &Fragments::b, k / kHalf);
  return std::bit_cast<std::array<T, kInWord>>(word)[size_t(k % kInWord)];
}

// Element (row, column) of the 16 x 8 or 8 x 8 tile of sums.
template <class T>
T& sum_at(void* const (&operands)[kWarpSize], int row, int column) {
  Fragments& own = *static_cast<Fragments*>(operands[row % 8 * 4 + column / 2]);
  return static_cast<T*>(own.c)[row / 8 * 2 + column % 2];
}

template <class T>
void multiply(void* const (&operands)[kWarpSize], unsigned lanes) {
  using namespace torch_reductions;
  check_whole(lanes);
  TensorFactors<8> b[kTensorStep];
  for (int k = 0; k < kTensorStep; k++)
    for (int column = 0; column < 8; column++) {
      const TensorFactor factor = tensor_factor(factor_of_b<T>(operands, k, column));
      b[k].significand[column] = factor.significand, b[k].exponent[column] = factor.exponent;
    }
  for (int row = 0; row < 16; row++) {
    TensorFactor a[kTensorStep];
    uint32_t sums[8];
    for (int k = 0; k < kTensorStep; k++) a[k] = tensor_factor(factor_of_a<T>(operands, row, k));
    for (int column = 0; column < 8; column++)
      sums[column] = std::bit_cast<uint32_t>(sum_at<float>(operands, row, column));
    tensor_step<T>(a, b, sums);
    for (int column = 0; column < 8; column++)
      sum_at<float>(operands, row, column) = std::bit_cast<float>(sums[column]);
  }
}

template <class T>
void multiply_bytes(void* const (&operands)[kWarpSize], unsigned lanes) {
  check_whole(lanes);
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++)
      for (int k = 0; k < 32; k++)
        sum_at<uint32_t>(operands, row, column) +=
            uint32_t(factor_of_a<T>(operands, row, k) * factor_of_b<T>(operands, k, column));
}

// K = 8 or 16; four elements of k lie in four neighbouring lanes.
void multiply_doubles(void* const (&operands)[kWarpSize], unsigned lanes, int length) {
  check_whole(lanes);
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++) {
      double& sum = sum_at<double>(operands, row, column);
      for (int k = 0; k < length; k++) {
        const double a =
            *part<const double>(operands, unsigned(row % 8 * 4 + k % 4), &Fragments::a, row / 8 + k / 4 * 2);
        const double b = *part<const double>(operands, unsigned(column * 4 + k % 4), &Fragments::b, k / 4);
        sum = std::fma(a, b, sum);
      }
    }
}

}  // namespace

void multiply_bfloat16(void* const (&operands)[kWarpSize], unsigned lanes) {
  multiply<torch_reductions::BFloat16>(operands, lanes);
}
void multiply_float16(void* const (&operands)[kWarpSize], unsigned lanes) {
  multiply<torch_reductions::Half>(operands, lanes);
}
void multiply_int8(void* const (&operands)[kWarpSize], unsigned lanes) { multiply_bytes<int8_t>(operands, lanes); }
void multiply_uint8(void* const (&operands)[kWarpSize], unsigned lanes) { multiply_bytes<uint8_t>(operands, lanes); }
void multiply_double_16x8x8(void* const (&operands)[kWarpSize], unsigned lanes) {
  multiply_doubles(operands, lanes, 8);
}
void multiply_double_16x8x16(void* const (&operands)[kWarpSize], unsigned lanes) {
  multiply_doubles(operands, lanes, 16);
}

void ldmatrix_lanes(void* const (&operands)[kWarpSize], unsigned lanes) {
  check_whole(lanes);
  const auto own = [&](unsigned lane) -> MatrixRows& { return *static_cast<MatrixRows*>(operands[lane]); };
  Thread* const last = current;
  Thread* const lanes_of_warp = &last->block->threads[last->warp->number * kWarpSize];
  for (int matrix = 0; matrix < own(0).count; matrix++) {
    uint16_t elements[8][8];
    for (int row = 0; row < 8; row++) {
      const void* address = own(unsigned(matrix * 8 + row)).row;
      if (reinterpret_cast<uintptr_t>(address) % 16 != 0) fault("misaligned: ldmatrix needs 16-byte alignment");
      current = lanes_of_warp + matrix * 8 + row;  // whose address it is
      observer->access(address, 16, false, current->warp->pc);
      std::memcpy(elements[row], address, 16);
    }
    current = last;
    for (unsigned lane = 0; lane < kWarpSize; lane++) {
      const unsigned row = lane / 4, column = lane % 4 * 2;
      const uint16_t low = own(lane).transposed ? elements[column][row] : elements[row][column];
      const uint16_t high = own(lane).transposed ? elements[column + 1][row] : elements[row][column + 1];
      own(lane).words[matrix] = uint32_t(high) << 16 | low;
    }
  }
}

}  // namespace emulator
