// Every rung of every family: the one table that the libraries, Python, the tests and the benchmarks read.
//
// A rung's number is the number of its file, and is stored in exported models: it never changes and is never used
// again. 0 is "auto". A file with a parameter takes the numbers after its own.
#pragma once
#include "args.h"

namespace torch_reductions {

enum Devices : unsigned { kCpu = 1, kCuda = 2 };

struct Rung {
  int number;
  const char* name;
  unsigned devices;    // of Devices
  int min_arch;        // the least compute capability, 75 for 7.5
  unsigned functions;  // one bit a Function, or whatever the family's functions are called
  unsigned dtypes;     // one bit a Dtype
  const char* order;   // of operations: what decides the bits
  const char* idea;
  bool emulated;  // can the CPU emulator run it?
};

constexpr unsigned bit(Function function) { return 1u << int(function); }
constexpr unsigned bit(Scan function) { return 1u << int(function); }
constexpr unsigned bit(Segment function) { return 1u << int(function); }
constexpr unsigned bit(Recurrence function) { return 1u << int(function); }
constexpr unsigned bit(Product function) { return 1u << int(function); }
constexpr unsigned bit(Add function) { return 1u << int(function); }
constexpr unsigned bit(Distance function) { return 1u << int(function); }
constexpr unsigned bit(Dtype dtype) { return 1u << int(dtype); }
inline constexpr unsigned kAllFunctions = (1u << kReduceFunctions) - 1, kAllDtypes = (1u << kDtypes) - 1;
inline constexpr unsigned kFolds =
    bit(Function::sum) | bit(Function::prod) | bit(Function::mean) | bit(Function::amax) | bit(Function::amin);
inline constexpr unsigned kTextbookDtypes =
    bit(Dtype::int32) | bit(Dtype::int64) | bit(Dtype::float32) | bit(Dtype::float64);

// clang-format off
inline constexpr Rung kReduceLadder[] = {
    {10, "sequential", kCpu, 0, kAllFunctions, kAllDtypes, "left to right", "one loop over the elements: the textbook's check", false},
    {20, "threaded", kCpu, 0, kAllFunctions, kAllDtypes, "one part a thread", "each thread folds a part, one thread folds the parts", false},
    {30, "neighbored_divergent", kCuda, 75, kFolds, kTextbookDtypes, "tree of the block size", "even threads add their neighbour: half of each warp idles", true},
    {40, "neighbored_compact", kCuda, 75, kFolds, kTextbookDtypes, "tree of the block size", "the same pairs, the working threads packed into whole warps", true},
    {50, "interleaved_pairs", kCuda, 75, kFolds, kTextbookDtypes, "halves of the block", "the stride halves, so that neighbours read neighbours", true},
    {60, "unrolled_blocks_2", kCuda, 75, kFolds, kTextbookDtypes, "2 blocks, then halves", "each thread first adds 2 blocks of data", true},
    {61, "unrolled_blocks_4", kCuda, 75, kFolds, kTextbookDtypes, "4 blocks, then halves", "each thread first adds 4 blocks of data", true},
    {62, "unrolled_blocks_8", kCuda, 75, kFolds, kTextbookDtypes, "8 blocks, then halves", "each thread first adds 8 blocks of data", true},
    {70, "unrolled_last_warp", kCuda, 75, kFolds, kTextbookDtypes, "8 blocks, then halves", "8 blocks, and the last warp without block barriers", true},
    {80, "unrolled_complete", kCuda, 75, kFolds, kTextbookDtypes, "8 blocks, then halves", "the whole loop unrolled by a template on the block size", true},
    {90, "shared_divergent", kCuda, 75, kFolds, kTextbookDtypes, "tree of the block size", "in shared memory, interleaved addresses, divergent warps", true},
    {100, "shared_bank_conflicts", kCuda, 75, kFolds, kTextbookDtypes, "tree of the block size", "packed threads whose strided addresses share banks", true},
    {110, "shared_sequential", kCuda, 75, kFolds, kTextbookDtypes, "halves of the block", "sequential addresses: no bank conflict", true},
    {120, "shared_first_add", kCuda, 75, kFolds, kTextbookDtypes, "2 blocks, then halves", "the first addition happens while loading", true},
    {130, "shared_last_warp", kCuda, 75, kFolds, kTextbookDtypes, "2 blocks, then halves", "the last warp unrolled, a template on the block size", true},
    {140, "warp_shuffle", kCuda, 75, kFolds, kTextbookDtypes, "grid stride, then halves", "registers and shuffles instead of shared memory", true},
    {150, "single_pass", kCuda, 75, kFolds, kTextbookDtypes, "grid stride, then halves", "a ticket: the last block folds the partials, one launch", true},
    {160, "cub", kCuda, 75, bit(Function::sum) | bit(Function::amax), kTextbookDtypes, "CUB's own", "CUB's DeviceReduce: the ruler", false},
    {170, "ordered", kCpu | kCuda, 75, kAllFunctions, kAllDtypes, "Fold(length)", "one order that the length alone decides: the same bits everywhere", true},
};

inline constexpr unsigned kAllScans = (1u << kScanFunctions) - 1, kNumbers = kAllDtypes & ~bit(Dtype::boolean);
inline constexpr unsigned kScanFolds = bit(Scan::cumsum) | bit(Scan::cumprod);
inline constexpr Rung kScanLadder[] = {
    {10, "sequential", kCpu, 0, kAllScans, kNumbers, "left to right", "one loop over the elements: the textbook's check", false},
    {20, "threaded", kCpu, 0, kAllScans, kNumbers, "one part a thread", "each thread folds a part, then scans it from what stands before it", false},
    {30, "scan_then_fan", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "blocks scan, their totals are scanned, and fanned out to the results: 4 accesses", true},
    {31, "scan_then_fan_128", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "the same in blocks of 128 threads, whatever the row", true},
    {32, "scan_then_fan_256", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "the same in blocks of 256 threads, whatever the row", true},
    {33, "scan_then_fan_512", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "the same in blocks of 512 threads, whatever the row", true},
    {34, "scan_then_fan_1024", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "the same in blocks of 1024 threads, whatever the row", true},
    {40, "reduce_then_scan", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "blocks reduce, their totals are scanned, blocks scan from there on: 3 accesses", true},
    {41, "reduce_then_scan_128", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "the same in blocks of 128 threads, whatever the row", true},
    {42, "reduce_then_scan_256", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "the same in blocks of 256 threads, whatever the row", true},
    {43, "reduce_then_scan_512", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "the same in blocks of 512 threads, whatever the row", true},
    {44, "reduce_then_scan_1024", kCuda, 75, kScanFolds, kTextbookDtypes, "log2 steps of blocks", "the same in blocks of 1024 threads, whatever the row", true},
    {50, "two_level", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "at most 512 parts a row: three launches, no recursion", true},
    {51, "two_level_128", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "the same in blocks of 128 threads, whatever the row", true},
    {52, "two_level_256", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "the same in blocks of 256 threads, whatever the row", true},
    {53, "two_level_512", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "the same in blocks of 512 threads, whatever the row", true},
    {54, "two_level_1024", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "the same in blocks of 1024 threads, whatever the row", true},
    {60, "two_level_zero_padded", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "identities before each warp's shared memory: no branch in its scan", true},
    {61, "two_level_zero_padded_128", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "the same in blocks of 128 threads, whatever the row", true},
    {62, "two_level_zero_padded_256", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "the same in blocks of 256 threads, whatever the row", true},
    {63, "two_level_zero_padded_512", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "the same in blocks of 512 threads, whatever the row", true},
    {64, "two_level_zero_padded_1024", kCuda, 75, kScanFolds, kTextbookDtypes, "strips of up to 512 parts", "the same in blocks of 1024 threads, whatever the row", true},
    {70, "look_back", kCuda, 75, kScanFolds, kTextbookDtypes, "differs from run to run", "one pass: blocks read the totals before theirs, 32 at a time: 2 accesses", true},
    {71, "look_back_128", kCuda, 75, kScanFolds, kTextbookDtypes, "differs from run to run", "the same in blocks of 128 threads, whatever the row", true},
    {72, "look_back_256", kCuda, 75, kScanFolds, kTextbookDtypes, "differs from run to run", "the same in blocks of 256 threads, whatever the row", true},
    {73, "look_back_512", kCuda, 75, kScanFolds, kTextbookDtypes, "differs from run to run", "the same in blocks of 512 threads, whatever the row", true},
    {74, "look_back_1024", kCuda, 75, kScanFolds, kTextbookDtypes, "differs from run to run", "the same in blocks of 1024 threads, whatever the row", true},
    {80, "cub", kCuda, 75, bit(Scan::cumsum), kTextbookDtypes, "CUB's own", "CUB's DeviceScan: the ruler", false},
    {90, "ordered", kCpu | kCuda, 75, kAllScans, kNumbers, "Fold(i + 1)", "one order that the position alone decides: the same bits everywhere", true},
};

inline constexpr unsigned kAllRecurrences = (1u << kRecurrenceFunctions) - 1;
inline constexpr unsigned kFloats = bit(Dtype::float16) | bit(Dtype::bfloat16) | bit(Dtype::float32) | bit(Dtype::float64);
inline constexpr Rung kRecurrenceLadder[] = {
    {10, "sequential", kCpu, 0, kAllRecurrences, kFloats, "left to right", "one loop over the elements: the textbook's check", false},
    {20, "ordered", kCpu | kCuda, 75, kAllRecurrences, kFloats, "Fold(i + 1)", "a scan of pairs: one order that the position alone decides", true},
};

inline constexpr unsigned kAllSegments = (1u << kSegmentFunctions) - 1;
inline constexpr Rung kSegmentLadder[] = {
    {10, "sequential", kCpu, 0, kAllSegments, kAllDtypes, "left to right", "one loop over each segment: the textbook's check", false},
    {20, "ordered", kCpu | kCuda, 75, kAllSegments, kAllDtypes, "Fold(length)", "each segment in the order that its own length decides", true},
};

inline constexpr unsigned kAllProducts = (1u << kProductFunctions) - 1;
inline constexpr unsigned kTextbookProducts = bit(Dtype::int32) | bit(Dtype::float32);
inline constexpr unsigned kHalves = bit(Dtype::float16) | bit(Dtype::bfloat16);
inline constexpr unsigned kTensorDtypes = kHalves | bit(Dtype::int8) | bit(Dtype::uint8);
inline constexpr Rung kMatmulLadder[] = {
    {10, "sequential", kCpu, 0, kAllProducts, kNumbers, "k ascending, product and sum rounded", "three loops: the textbook's check", false},
    {20, "blocked", kCpu, 0, kAllProducts, kNumbers, "k ascending, product and sum rounded", "the loops go over blocks that stay in the cache", false},
    {30, "hopper_model", kCpu, 0, kAllProducts, kHalves, "steps of 16 as a 9.0 tensor core adds them", "the tensor core's own arithmetic in integers: the bits of an H100 or H200 without one", false},
    {40, "one_element", kCuda, 75, kAllProducts, kNumbers, "one chain of fma, k ascending", "one thread an element of the result: each operand is read from memory over and over", true},
    {50, "register_tile_1", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a thread computes one element: what larger tiles are measured against", true},
    {51, "register_tile_2", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a thread computes 2 x 2 elements, in registers", true},
    {52, "register_tile_4", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a thread computes 4 x 4 elements, in registers", true},
    {53, "register_tile_8", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a thread computes 8 x 8 elements, in registers", true},
    {54, "register_tile_16", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a thread computes 16 x 16 elements, more than fit into registers", true},
    {55, "register_tile_32", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a thread computes 32 x 32 elements, more than fit into registers", true},
    {56, "register_tile_64", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a thread computes 64 x 64 elements, more than fit into registers", true},
    {60, "shared_tile_1", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a block of one thread stages an element of a and of b: the least that there is", true},
    {61, "shared_tile_2", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a block of 2 x 2 threads stages tiles of a and b in shared memory", true},
    {62, "shared_tile_4", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a block of 4 x 4 threads stages tiles of a and b in shared memory", true},
    {63, "shared_tile_8", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a block of 8 x 8 threads stages tiles of a and b in shared memory", true},
    {64, "shared_tile_16", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a block of 16 x 16 threads stages tiles of a and b in shared memory", true},
    {65, "shared_tile_32", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "a block of 32 x 32 threads stages tiles of a and b in shared memory", true},
    {70, "shared_register_tile", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "shared panels for 128 x 128 elements, 8 x 8 of them a thread", true},
    {80, "vector_loads", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "16 bytes an access, from global and from shared memory", true},
    {90, "swizzled", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "an exclusive or on shared addresses: no bank conflict", true},
    {100, "async_pipeline", kCuda, 75, kAllProducts, kTextbookProducts, "one chain of fma, k ascending", "copies into shared memory go on while older panels are multiplied", true},
    {110, "tensor_core", kCuda, 80, kAllProducts, kTensorDtypes, "steps of 16 as the device's tensor core adds them", "tensor cores by mma.sync: a warp multiplies tiles that ldmatrix deals to its lanes", true},
    {120, "tensor_core_hopper", kCuda, 90, kAllProducts, kTensorDtypes, "steps of 16 as a 9.0 tensor core adds them", "wgmma on tiles that the bulk engine copies: a warpgroup only asks, two only multiply", true},
    {130, "cublas", kCuda, 75, kAllProducts, kFloats, "cuBLAS's own", "torch's own operators: the ruler", false},
    {140, "ordered", kCpu | kCuda, 75, kAllProducts, kNumbers, "chunks of 512, one chain of fma each", "one order that k alone decides: the same bits everywhere", true},
};

inline constexpr Rung kAddLadder[] = {
    {10, "sequential", kCpu, 0, bit(Add::add), kAllDtypes, "one rounding an element", "one loop over the elements: the textbook's check", false},
    {20, "grid_2d", kCuda, 75, bit(Add::add), kTextbookDtypes, "one rounding an element", "a two-dimensional grid of 32 x 32 blocks over rows and columns", true},
    {21, "grid_2d_16x16", kCuda, 75, bit(Add::add), kTextbookDtypes, "one rounding an element", "rows and columns in blocks of 16 x 16 threads: a warp reads halves of two rows", true},
    {22, "grid_2d_32x8", kCuda, 75, bit(Add::add), kTextbookDtypes, "one rounding an element", "rows and columns in blocks of 32 x 8 threads: a block is ready sooner for the next one", true},
    {23, "grid_2d_128x1", kCuda, 75, bit(Add::add), kTextbookDtypes, "one rounding an element", "rows and columns in blocks of 128 x 1 threads: four warps along one row", true},
    {30, "grid_1d", kCuda, 75, bit(Add::add), kTextbookDtypes, "one rounding an element", "one thread an element, counted through all rows: no thread beside a short row", true},
    {40, "grid_stride", kCuda, 75, bit(Add::add), kTextbookDtypes, "one rounding an element", "as many blocks as run at once: each thread goes on by the grid's width", true},
    {50, "vectorized", kCpu | kCuda, 75, bit(Add::add), kAllDtypes, "one rounding an element", "16 bytes an access on the GPU; threads and vectors on the CPU", true},
};

inline constexpr unsigned kAllDistances = (1u << kDistanceFunctions) - 1;
inline constexpr Rung kDistanceLadder[] = {
    {10, "sequential", kCpu, 0, kAllDistances, kFloats, "Fold(C) of Fold(D)", "three loops: the textbook's check", false},
    {20, "global_memory", kCuda, 75, kAllDistances, kFloats, "Fold(C) of Fold(D)", "the sums lie in global memory: one is read and written for each center", true},
    {30, "global_register", kCuda, 75, kAllDistances, kFloats, "Fold(C) of Fold(D)", "the total stays in a register, the centers in global memory", true},
    {40, "constant_memory", kCuda, 75, kAllDistances, kFloats, "Fold(C) of Fold(D)", "the centers in constant memory: all lanes read one address, a broadcast", true},
    {50, "constant_divergent", kCuda, 75, kAllDistances, kFloats, "one chain, a lane's own center first", "each lane begins at another center: constant memory serves one address after the other", true},
    {60, "read_only_cache", kCuda, 75, kAllDistances, kFloats, "Fold(C) of Fold(D)", "the centers by the read-only path (ld.global.nc)", true},
    {70, "shared_memory", kCuda, 75, kAllDistances, kFloats, "Fold(C) of Fold(D)", "a block copies the centers into its shared memory first", true},
    {80, "ordered", kCpu | kCuda, 75, kAllDistances, kFloats, "Fold(C) of Fold(D)", "several points a thread: each center that is read serves all of them", true},
};
// clang-format on
inline constexpr int kReduceAuto = 170, kScanAuto = 90, kRecurrenceAuto = 20, kSegmentAuto = 20, kMatmulAuto = 140,
                     kAddAuto = 50, kDistanceAuto = 80;
inline constexpr int kMatmulCublas = 130;  // is no kernel, but torch's own

}  // namespace torch_reductions
