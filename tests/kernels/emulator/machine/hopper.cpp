#include "hopper.h"

#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "../../../../csrc/common/tensor_step.h"
#include "machine.h"
#include "observer.h"
#include "schedule.h"

namespace torch_reductions::cuda {
extern thread_local uint4 memory[emulator::kDynamicBytes / sizeof(uint4)];
}

namespace emulator {
namespace {

#define CALLER (reinterpret_cast<uintptr_t>(__builtin_return_address(0)) - 1)

constexpr unsigned kPiece = 16, kRow = 128;  // bytes: what the swizzle moves, and a row of a tile

// As on 9.0, the blocks of a cluster have neighbouring windows of addresses: those of any but the first have high bits.
constexpr unsigned kWindowBits = 24;

uint32_t shared_offset(const void* p) {
  return uint32_t(static_cast<const char*>(p) - reinterpret_cast<const char*>(torch_reductions::cuda::memory));
}
char* shared_place(uint32_t address) { return reinterpret_cast<char*>(torch_reductions::cuda::memory) + address; }

// In eight rows of 128 bytes, bits 4 to 6 of an address are turned by bits 7 to 9.
uint32_t swizzled(uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

// What a CUtensorMap holds here.
struct Map {
  const char* data;
  uint64_t sizes[3], strides[2];
  uint32_t box[2], size;
};
static_assert(sizeof(Map) <= sizeof(CUtensorMap));

CUresult encode(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* data, const cuuint64_t* sizes,
                const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  const uint32_t size = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 2;
  bool right = rank == 3 && reinterpret_cast<uintptr_t>(data) % 16 == 0 && swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
  for (int i = 0; i < 3; i++)
    right &= sizes[i] > 0 && sizes[i] <= uint64_t(1) << 32 && box[i] > 0 && box[i] <= 256 && steps[i] == 1;
  for (int i = 0; i < 2; i++) right &= strides[i] % 16 == 0 && strides[i] > 0 && strides[i] < uint64_t(1) << 40;
  right &= box[0] * size == kRow && box[2] == 1;  // all that is needed here
  if (!right) return CUDA_ERROR_INVALID_VALUE;
  const Map map{
      static_cast<const char*>(data), {sizes[0], sizes[1], sizes[2]}, {strides[0], strides[1]}, {box[0], box[1]}, size};
  std::memcpy(to, &map, sizeof map);
  return CUDA_SUCCESS;
}

// Where wgmma reads: the canonical layouts of the PTX manual, with a swizzle of 128 bytes.
struct Descriptor {
  uint32_t start, leading, stride;

  explicit Descriptor(uint64_t bits)
      : start(uint32_t(bits & 0x3fff) << 4),
        leading(uint32_t(bits >> 16 & 0x3fff) << 4),
        stride(uint32_t(bits >> 32 & 0x3fff) << 4) {
    if (bits >> 62 != 1 || (bits >> 49 & 7) != 0) fault("a descriptor of wgmma that is not swizzled by 128 bytes");
  }
  // Of `size` bytes: row i of a, or column i of b, and k.
  uint32_t element(unsigned i, unsigned k, unsigned size, bool along_mn) const {
    if (!along_mn) return swizzled(start + i / 8 * stride + i % 8 * kRow + k * size);
    return swizzled(start + i / 64 * leading + k / 8 * stride + k % 8 * kRow + i % 64 * size);
  }
};

// Every lane tells of a part of what its warp reads.
void tell_of(const Descriptor& descriptor, unsigned first, unsigned count, unsigned size, bool along_mn, uintptr_t pc) {
  const unsigned across = along_mn ? kPiece / size : 1, deep = along_mn ? 1 : kPiece / size;  // of a piece
  unsigned piece = 0;
  for (unsigned i = first; i < first + count; i += across)
    for (unsigned k = 0; k < 32 / size; k += deep)
      if (piece++ % kWarpSize == current->lane)
        observer->access_later(shared_place(descriptor.element(i, k, size, along_mn)), kPiece, false, pc);
}

// Element k of row i of a, or of column i of b.
template <class T>
T element_of(const Descriptor& descriptor, unsigned i, unsigned k, bool along_mn) {
  T x;
  std::memcpy(&x, shared_place(descriptor.element(i, k, sizeof(T), along_mn)), sizeof(T));
  return x;
}

// One step of a row by eight columns. Of all that a product takes here nearly everything: in vectors where the processor
// has them.
template <class T, int kColumns>
__attribute__((optimize("O3"), target_clones("avx2", "default"))) void step_of_row(
    const torch_reductions::TensorFactor* row, const torch_reductions::TensorFactors<kColumns>* factors,
    uint32_t (&sums)[kColumns]) {
  torch_reductions::tensor_step<T>(row, factors, sums);
}

// A thread has two rows, 8 apart, and of each 8 columns two neighbours: eight columns at a time.
template <class T>
void multiply(const Product& product, const Descriptor& a, const Descriptor& b) {
  using namespace torch_reductions;
  constexpr int kColumns = 8;
  constexpr unsigned kDeep = 32 / sizeof(T);
  const unsigned lane = current->lane, first = current->rank / kWarpSize % 4 * 16 + lane / 4;
  for (unsigned begin = 0; begin < product.count; begin += 2 * kColumns) {
    T columns[kDeep][kColumns];
    for (unsigned k = 0; k < kDeep; k++)
      for (unsigned c = 0; c < kColumns; c++)
        columns[k][c] = element_of<T>(b, begin * 2 + c / 2 * 8 + lane % 4 * 2 + c % 2, k, product.mn_major_b);
    [[maybe_unused]] TensorFactors<kColumns> factors[kTensorStep];
    if constexpr (sizeof(T) == 2) {
      for (unsigned k = 0; k < kDeep; k++) {
        for (unsigned c = 0; c < kColumns; c++) {
          const TensorFactor factor = tensor_factor(columns[k][c]);
          factors[k].significand[c] = factor.significand, factors[k].exponent[c] = factor.exponent;
        }
      }
    }
    for (unsigned r = 0; r < 2; r++) {
      uint32_t sums[kColumns];
      const auto sum = [&](unsigned c) -> uint32_t& { return product.sums[begin + c / 2 * 4 + r * 2 + c % 2]; };
      for (unsigned c = 0; c < kColumns; c++) sums[c] = product.add ? sum(c) : 0;
      if constexpr (sizeof(T) == 2) {
        TensorFactor row[kTensorStep];
        for (unsigned k = 0; k < kDeep; k++)
          row[k] = tensor_factor(element_of<T>(a, first + 8 * r, k, product.mn_major_a));
        step_of_row<T>(row, factors, sums);
      } else {
        for (unsigned k = 0; k < kDeep; k++)
          for (unsigned c = 0; c < kColumns; c++)
            sums[c] += uint32_t(element_of<T>(a, first + 8 * r, k, product.mn_major_a) * columns[k][c]);
      }
      for (unsigned c = 0; c < kColumns; c++) sum(c) = sums[c];
    }
  }
}

void run(const Product& product, uintptr_t pc) {
  using namespace torch_reductions;
  const Descriptor a(product.a), b(product.b);
  const unsigned size = unsigned(size_of(product.dtype)), warp = current->rank / kWarpSize % 4;
  tell_of(a, warp * 16, 16, size, product.mn_major_a, pc);
  tell_of(b, 0, product.count * 2, size, product.mn_major_b, pc);
  switch (product.dtype) {
    case Dtype::bfloat16: return multiply<BFloat16>(product, a, b);
    case Dtype::float16: return multiply<Half>(product, a, b);
    case Dtype::int8: return multiply<int8_t>(product, a, b);
    default: return multiply<uint8_t>(product, a, b);
  }
}

void run_groups(size_t left, uintptr_t pc) {
  auto& groups = current->products.groups;
  for (; groups.size() > left; groups.erase(groups.begin()))
    for (const Product& product : groups.front()) run(product, pc);
}

}  // namespace

uint32_t shared_address(const void* p) { return cluster_rank() << kWindowBits | shared_offset(p); }

void tma_load(void* shared, const CUtensorMap_st* tensor, int column, int row, int outer, uint64_t* barrier,
              unsigned blocks) {
  Map map;
  std::memcpy(&map, tensor, sizeof map);
  const uint32_t to = shared_offset(shared);
  if (to % 1024 != 0) fault("a swizzled tile that does not begin at a multiple of 1024 bytes");
  std::vector<Copy> copies;
  for (uint32_t r = 0; r < map.box[1]; r++) {
    for (uint32_t piece = 0; piece < kRow; piece += kPiece) {
      char* const place = shared_place(swizzled(to + r * kRow + piece));
      const int64_t x = column + int64_t(piece / map.size), y = row + int64_t(r), z = outer;
      const bool inside = x >= 0 && y >= 0 && y < int64_t(map.sizes[1]) && z >= 0 && z < int64_t(map.sizes[2]);
      const int64_t there = inside ? std::min<int64_t>(int64_t(map.sizes[0]) - x, kPiece / map.size) : 0;
      const unsigned bytes = there > 0 ? unsigned(there) * map.size : 0;
      if (bytes > 0)
        copies.push_back(
            {place, map.data + z * int64_t(map.strides[1]) + y * int64_t(map.strides[0]) + x * map.size, bytes});
      if (bytes < kPiece) copies.push_back({place + bytes, nullptr, kPiece - bytes});
    }
  }
  for (unsigned rank = 0; blocks >> rank != 0; rank++) {
    if (!(blocks >> rank & 1)) continue;
    std::vector<Copy> there = copies;
    for (Copy& copy : there) copy.to = in_cluster(copy.to, rank);
    copy_pieces(std::move(there), reinterpret_cast<uint64_t*>(in_cluster(barrier, rank)), CALLER);
  }
}

void wgmma(const Product& product) { current->products.open.push_back(product); }

void warpgroup_commit() {
  PendingProducts& products = current->products;
  products.groups.push_back(std::move(products.open));
  products.open.clear();
  if (happens_at_once()) run_groups(0, CALLER);
}

void warpgroup_wait(unsigned pending) { run_groups(pending, CALLER); }

}  // namespace emulator

// What the run time finds in the driver.
extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *found = known ? reinterpret_cast<void*>(emulator::encode) : nullptr;
  *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
