// Every rung of every family: the one table that the libraries, Python, the tests and the benchmarks read.
//
// A rung's number is the number of its file, and is stored in exported models: it never changes and is never used
// again. 0 is "auto". Where a rung has a parameter, each of its values has a number: the rung's own, and those after it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "args.h"

namespace torch_reductions {

// kTorch: csrc/ops calls torch's own operator, and no library has a launcher.
enum Devices : unsigned { kCpu = 1, kCuda = 2, kTorch = 4 };

// 256, or 16 x 16. Without numbers: the kernel chooses, by the row's length.
struct ParameterValue {
  int x = 0, y = 0;
  constexpr bool operator==(const ParameterValue&) const = default;
};

// What a rung is compiled for several values of. The rung's name with a value, look_back:256, chooses one; its bare
// name is values[bare]. A rung without a parameter has the one value without numbers.
struct Parameter {
  const char* name = "";
  int count = 1, bare = 0;
  ParameterValue values[7] = {};
};

template <size_t N>
consteval Parameter parameter(const char* name, const ParameterValue (&values)[N], ParameterValue bare) {
  Parameter made{name, int(N)};
  static_assert(N <= std::size(made.values) && N <= 10, "the numbers of two rungs are at most ten apart");
  std::copy(values, values + N, made.values);
  made.bare = int(std::find(values, values + N, bare) - values);
  return made.bare < made.count ? made : throw "the bare name's value is not among them";
}

// The compute capabilities, 80 for 8.0, whose instructions a rung needs; by default any that the library is compiled for.
struct Needs {
  int first = 0, last = 9999;
};

struct Rung {
  int number;  // of the parameter's first value
  const char* name;
  unsigned devices;    // of Devices
  unsigned functions;  // one bit per function of the family
  unsigned dtypes;     // one bit per Dtype
  const char* order;   // of operations: what decides the bits
  const char* idea;
  bool emulated;  // can the CPU emulator run it?
  Parameter parameter = {};
  Needs needs = {};
};

constexpr bool has_number(const Rung& rung, int64_t number) {
  return number >= rung.number && number < rung.number + rung.parameter.count;
}

// The value that a number stands for.
template <size_t N>
consteval ParameterValue value_of(const Rung (&ladder)[N], int number) {
  for (const Rung& rung : ladder) {
    if (has_number(rung, number)) return rung.parameter.values[number - rung.number];
  }
  throw "no rung has that number";
}

// One bit for each value of an enum: a Function, or whatever the family's functions are called, or a Dtype.
template <class Enum>
constexpr unsigned bit(Enum value) {
  return 1u << int(value);
}

inline constexpr unsigned kAllFunctions = (1u << kReduceFunctions) - 1, kAllDtypes = (1u << kDtypes) - 1;
inline constexpr unsigned kFolds =
    bit(Function::sum) | bit(Function::prod) | bit(Function::mean) | bit(Function::amax) | bit(Function::amin);
inline constexpr unsigned kTextbookDtypes =
    bit(Dtype::int32) | bit(Dtype::int64) | bit(Dtype::float32) | bit(Dtype::float64);

// A parameter's values keep their order for good, and new ones come last: that is what their numbers hang on.
inline constexpr Parameter kBlocks = parameter("blocks", {{2}, {4}, {8}}, {8});
inline constexpr Parameter kBlockSize = parameter("block_size", {{}, {128}, {256}, {512}, {1024}}, {});
// The last one: 256 threads, and at most 150 blocks.
inline constexpr Parameter kGridSize = parameter("block_size", {{}, {128}, {256}, {512}, {1024}, {256, 150}}, {});
inline constexpr Parameter kRegisterTile = parameter("tile", {{1}, {2}, {4}, {8}, {16}, {32}, {64}}, {4});
inline constexpr Parameter kSharedTile = parameter("tile", {{1}, {2}, {4}, {8}, {16}, {32}}, {32});
inline constexpr Parameter kBlock = parameter("block", {{32, 32}, {16, 16}, {32, 8}, {128, 1}, {2, 2}}, {32, 32});

// clang-format off
inline constexpr Rung kReduceLadder[] = {
    {10, "sequential", kCpu, kAllFunctions, kAllDtypes, "left to right", "one loop over the elements: the reference that other rungs are checked against", false},
    {20, "threaded", kCpu, kAllFunctions, kAllDtypes, "one part per thread", "each thread folds a part, one thread folds the parts", false},
    {30, "neighbored_divergent", kCuda, kFolds, kTextbookDtypes, "tree of the block size", "even threads add their neighbour: half of each warp idles", true, kBlockSize},
    {40, "neighbored_compact", kCuda, kFolds, kTextbookDtypes, "tree of the block size", "the same pairs, the working threads packed into whole warps", true, kBlockSize},
    {50, "interleaved_pairs", kCuda, kFolds, kTextbookDtypes, "halves of the block", "the stride halves, so that neighbours read neighbours", true, kBlockSize},
    {60, "unrolled_blocks", kCuda, kFolds, kTextbookDtypes, "2, 4 or 8 blocks, then halves", "each thread first adds `blocks` blocks of data", true, kBlocks},
    {70, "unrolled_last_warp", kCuda, kFolds, kTextbookDtypes, "8 blocks, then halves", "8 blocks, and the last warp without block barriers", true, kBlockSize},
    {80, "unrolled_complete", kCuda, kFolds, kTextbookDtypes, "8 blocks, then halves", "the whole loop unrolled by a template on the block size", true, kBlockSize},
    {90, "shared_divergent", kCuda, kFolds, kTextbookDtypes, "tree of the block size", "in shared memory, interleaved addresses, divergent warps", true, kBlockSize},
    {100, "shared_bank_conflicts", kCuda, kFolds, kTextbookDtypes, "tree of the block size", "packed threads whose strided addresses share banks", true, kBlockSize},
    {110, "shared_sequential", kCuda, kFolds, kTextbookDtypes, "halves of the block", "sequential addresses: no bank conflict", true, kBlockSize},
    {120, "shared_first_add", kCuda, kFolds, kTextbookDtypes, "2 blocks, then halves", "the first addition happens while loading", true, kBlockSize},
    {130, "shared_last_warp", kCuda, kFolds, kTextbookDtypes, "2 blocks, then halves", "the last warp's six steps unrolled, without block barriers", true, kBlockSize},
    {135, "shared_complete", kCuda, kFolds, kTextbookDtypes, "2 blocks, then halves", "the whole loop unrolled by a template on the block size", true, kBlockSize},
    {140, "warp_shuffle", kCuda, kFolds, kTextbookDtypes, "grid stride, then halves", "registers and shuffles instead of shared memory", true, kBlockSize},
    {150, "single_pass", kCuda, kFolds, kTextbookDtypes, "grid stride, then halves", "a ticket: the last block folds the partials, one launch", true, kBlockSize},
    {160, "cub", kCuda, bit(Function::sum) | bit(Function::amax), kTextbookDtypes, "CUB's own", "CUB's DeviceReduce: for comparison", false},
    {170, "ordered", kCpu | kCuda, kAllFunctions, kAllDtypes, "Fold(length)", "one order that the length alone decides: the same bits everywhere", true},
};

inline constexpr unsigned kAllScans = (1u << kScanFunctions) - 1, kNumbers = kAllDtypes & ~bit(Dtype::boolean);
inline constexpr unsigned kScanFolds = bit(Scan::cumsum) | bit(Scan::cumprod);
inline constexpr Rung kScanLadder[] = {
    {10, "sequential", kCpu, kAllScans, kNumbers, "left to right", "one loop over the elements: the reference that other rungs are checked against", false},
    {20, "threaded", kCpu, kAllScans, kNumbers, "one part per thread", "each thread folds a part, then scans it, starting from the prefix before it", false},
    {30, "scan_then_fan", kCuda, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "blocks scan, their totals are scanned, and fanned out to the results: 4 accesses", true, kGridSize},
    {40, "reduce_then_scan", kCuda, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "blocks reduce, their totals are scanned, blocks scan from there on: 3 accesses", true, kGridSize},
    {50, "two_level", kCuda, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "at most 512 parts per row: three launches, no recursion", true, kBlockSize},
    {60, "two_level_zero_padded", kCuda, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "identities before each warp's shared memory: no branch in its scan", true, kBlockSize},
    {70, "look_back", kCuda, kScanFolds, kTextbookDtypes, "differs from run to run", "one pass: blocks read the totals before theirs, 32 at a time: 2 accesses", true, kBlockSize},
    {80, "cub", kCuda, bit(Scan::cumsum), kTextbookDtypes, "CUB's own", "CUB's DeviceScan: for comparison", false},
    {90, "ordered", kCpu | kCuda, kAllScans, kNumbers, "Fold(i + 1)", "one order that the position alone decides: the same bits everywhere", true},
};

inline constexpr unsigned kAllRecurrences = (1u << kRecurrenceFunctions) - 1;
inline constexpr unsigned kFloats = bit(Dtype::float16) | bit(Dtype::bfloat16) | bit(Dtype::float32) | bit(Dtype::float64);
inline constexpr Rung kRecurrenceLadder[] = {
    {10, "sequential", kCpu, kAllRecurrences, kFloats, "left to right", "one loop over the elements: the reference that other rungs are checked against", false},
    {20, "ordered", kCpu | kCuda, kAllRecurrences, kFloats, "Fold(i + 1)", "a scan of pairs: one order that the position alone decides", true},
};

inline constexpr unsigned kAllSegments = (1u << kSegmentFunctions) - 1;
inline constexpr Rung kSegmentLadder[] = {
    {10, "sequential", kCpu, kAllSegments, kAllDtypes, "left to right", "one loop over each segment: the reference that other rungs are checked against", false},
    {20, "ordered", kCpu | kCuda, kAllSegments, kAllDtypes, "Fold(length)", "each segment in the order that its own length decides", true},
};

inline constexpr unsigned kAllProducts = (1u << kProductFunctions) - 1;
inline constexpr unsigned kTextbookProducts = bit(Dtype::int32) | bit(Dtype::float32);
inline constexpr unsigned kHalves = bit(Dtype::float16) | bit(Dtype::bfloat16);
inline constexpr unsigned kTensorDtypes = kHalves | bit(Dtype::int8) | bit(Dtype::uint8);
inline constexpr Rung kMatmulLadder[] = {
    {10, "sequential", kCpu, kAllProducts, kNumbers, "k ascending, product and sum rounded", "three loops: the reference that other rungs are checked against", false},
    {20, "blocked", kCpu, kAllProducts, kNumbers, "k ascending, product and sum rounded", "the loops go over blocks that stay in the cache", false},
    {30, "hopper_model", kCpu, kAllProducts, kHalves, "steps of 16 as a 9.0 tensor core adds them", "the tensor core's own arithmetic in integers: the bits of an H100 or H200 without one", false},
    {40, "one_element", kCuda, kAllProducts, kNumbers, "one chain of fma, k ascending", "one thread per element of the result: each operand is read from memory over and over", true},
    {50, "register_tile", kCuda, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a thread computes tile x tile elements in registers; from 16 on they do not fit", true, kRegisterTile},
    {60, "shared_tile", kCuda, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a block of tile x tile threads stages tiles of a and b in shared memory", true, kSharedTile},
    {70, "shared_register_tile", kCuda, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "shared panels for 128 x 128 elements, 8 x 8 of them per thread", true},
    {80, "vector_loads", kCuda, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "16 bytes per access, from global and from shared memory", true},
    {90, "swizzled", kCuda, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "an exclusive or on shared addresses: no bank conflict", true},
    {100, "async_pipeline", kCuda, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "copies into shared memory go on while older panels are multiplied", true},
    {110, "tensor_core", kCuda, kAllProducts, kTensorDtypes, "steps of 16 as the device's tensor core adds them", "tensor cores by mma.sync: a warp multiplies tiles that ldmatrix loads into its lanes", true, {}, {.first = 80}},
    {120, "tensor_core_hopper", kCuda, kAllProducts, kTensorDtypes, "steps of 16 as a 9.0 tensor core adds them", "wgmma on tiles that the TMA engine copies: one warpgroup issues the copies, two multiply", true, {}, {.first = 90, .last = 90}},
    {130, "cublas", kCuda | kTorch, kAllProducts, kFloats, "cuBLAS's own", "torch's own operators: for comparison", false},
    {140, "ordered", kCpu | kCuda, kAllProducts, kNumbers, "chunks of 512, one chain of fma each", "one order that k alone decides: the same bits everywhere", true},
};

inline constexpr Rung kAddLadder[] = {
    {10, "sequential", kCpu, bit(Add::add), kAllDtypes, "one rounding per element", "one loop over the elements: the reference that other rungs are checked against", false},
    {20, "grid_2d", kCuda, bit(Add::add), kTextbookDtypes, "one rounding per element", "a two-dimensional grid of blocks over rows and columns", true, kBlock},
    {30, "grid_1d", kCuda, bit(Add::add), kTextbookDtypes, "one rounding per element", "one thread per element, counted through all rows: no idle threads next to a short row", true},
    {40, "grid_stride", kCuda, bit(Add::add), kTextbookDtypes, "one rounding per element", "as many blocks as run at once: each thread advances by the number of threads in the grid", true},
    {50, "vectorized", kCpu | kCuda, bit(Add::add), kAllDtypes, "one rounding per element", "16 bytes per access on the GPU; threads and vectors on the CPU", true},
};

inline constexpr unsigned kAllDistances = (1u << kDistanceFunctions) - 1;
inline constexpr Rung kDistanceLadder[] = {
    {10, "sequential", kCpu, kAllDistances, kFloats, "Fold(C) of Fold(D)", "three loops: the reference that other rungs are checked against", false},
    {20, "global_memory", kCuda, kAllDistances, kFloats, "Fold(C) of Fold(D)", "the sums are in global memory: one is read and written for each center", true},
    {25, "constant_sums_in_memory", kCuda, kAllDistances, kFloats, "Fold(C) of Fold(D)", "the centers in constant memory, and nothing else changed: the sums stay in global memory", true},
    {30, "global_register", kCuda, kAllDistances, kFloats, "Fold(C) of Fold(D)", "the total stays in a register, the centers in global memory", true},
    {40, "constant_memory", kCuda, kAllDistances, kFloats, "Fold(C) of Fold(D)", "the centers in constant memory: all lanes read one address, a broadcast", true},
    {50, "constant_divergent", kCuda, kAllDistances, kFloats, "one chain, a lane's own center first", "each lane begins at another center: constant memory serves one address after the other", true},
    {60, "read_only_cache", kCuda, kAllDistances, kFloats, "Fold(C) of Fold(D)", "the centers by the read-only path (ld.global.nc)", true},
    {70, "shared_memory", kCuda, kAllDistances, kFloats, "Fold(C) of Fold(D)", "a block copies the centers into its shared memory first", true},
    {80, "ordered", kCpu | kCuda, kAllDistances, kFloats, "Fold(C) of Fold(D)", "several points per thread: each center that is read serves all of them", true},
};
// clang-format on
inline constexpr int kReduceAuto = 170, kScanAuto = 90, kRecurrenceAuto = 20, kSegmentAuto = 20, kMatmulAuto = 140,
                     kAddAuto = 50, kDistanceAuto = 80;
inline constexpr int kMatmulCublas = 130;  // is no kernel, but torch's own

}  // namespace torch_reductions
