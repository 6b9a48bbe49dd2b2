// vectorized
// Changes: threads, vectors, and runs of elements that are contiguous in the result. This is what auto runs.
// Costs:   memory bandwidth, as for a copy; a new result also costs its page faults.
// Gains:   every layout at memory speed: a transposed operand is read in tiles that fit into the cache.
// Order:   alpha other + input, rounded once, in the accumulator type: no neighbour takes part.
// Needs:   any processor; AVX2 and AVX-512 are used where available.
// See:     vectorized_kernels.h, the vector code; this file splits a call into tiles for the threads.
#include <algorithm>

#include "../../common/ceil_div.h"
#include "../processor.h"
#include "ladder.h"
#include "vectorized.h"

namespace torch_reductions::cpu::add {
namespace {

// Bytes of an output that is too large for the caches. From 32 MB on the C library gets new pages from the system,
// whose zeros are in the cache when the sums are written.
constexpr int64_t kCacheBytes = 8 << 20, kFreshBytes = 32 << 20;
constexpr int64_t kTileWidth = 64, kTileHeight = 32;  // for transposed operands: all of each cache line is used

// While the system clears the pages of a new result, vectors of 32 bytes are faster than those of 64.
const AddKernels& add_kernels([[maybe_unused]] int64_t bytes) {
#ifdef __x86_64__
  static constexpr const AddKernels* kCompiled[] = {&add_baseline, &add_avx2, &add_avx512};
  return *kCompiled[std::min(int(processor()), bytes < kFreshBytes ? 2 : 1)];
#else
  return add_baseline;
#endif
}

bool lies_across(int64_t stride) { return stride != 0 && stride != 1; }

// Splits a call into tiles: runs along the innermost dim, several of them along another dim, `rows`.
struct Plan {
  const AddArgs& args;
  int rows = 1;
  int64_t row_count, tile_width, tile_height, across, down;

  explicit Plan(const AddArgs& args) : args(args) {
    const int64_t width = args.sizes[0];
    bool across_any = false;
    for (const int64_t* strides : {args.input_strides, args.other_strides}) {
      if (args.dims == 1 || across_any || !lies_across(strides[0])) continue;
      for (int d = 1; d < args.dims; d++) {  // the dim with the smallest stride
        if (strides[d] == 0 || strides[d] >= strides[0]) continue;
        if (!across_any || strides[d] < strides[rows]) rows = d, across_any = true;
      }
    }
    row_count = args.dims == 1 ? 1 : args.sizes[rows];
    tile_width = std::min(width, across_any ? kTileWidth : kGrain);
    tile_height = std::min(row_count, across_any ? kTileHeight : std::max(kGrain / tile_width, int64_t(1)));
    across = ceil_div(width, tile_width), down = ceil_div(row_count, tile_height);
  }

  int64_t tiles() const { return args.count / args.sizes[0] / row_count * across * down; }

  void add(int64_t tile, int64_t size, void (*kernel)(const AddRun&, double)) const {
    const int64_t column = tile % across * tile_width, row = tile / across % down * tile_height;
    int64_t rest = tile / across / down, of_input = column * args.input_strides[0];
    int64_t of_other = column * args.other_strides[0], of_output = column;
    int64_t stride = args.sizes[0], row_stride = 0;  // of the output
    for (int d = 1; d < args.dims; stride *= args.sizes[d++]) {
      const int64_t at = d == rows ? row : rest % args.sizes[d];
      if (d == rows) row_stride = stride;
      else rest /= args.sizes[d];
      of_input += at * args.input_strides[d], of_other += at * args.other_strides[d], of_output += at * stride;
    }
    AddRun run{static_cast<const char*>(args.input) + of_input * size,
               static_cast<const char*>(args.other) + of_other * size,
               args.input_strides[0],
               args.other_strides[0],
               static_cast<char*>(args.output) + of_output * size,
               std::min(tile_width, args.sizes[0] - column),
               args.count * size > kCacheBytes && args.count * size < kFreshBytes};
    const int64_t input_step = args.dims == 1 ? 0 : args.input_strides[rows] * size;
    const int64_t other_step = args.dims == 1 ? 0 : args.other_strides[rows] * size;
    for (int64_t i = std::min(tile_height, row_count - row); i > 0; i--) {
      kernel(run, args.alpha);
      run.input = static_cast<const char*>(run.input) + input_step;
      run.other = static_cast<const char*>(run.other) + other_step;
      run.output = static_cast<char*>(run.output) + row_stride * size;
    }
  }
};

}  // namespace

void vectorized(const AddArgs& args, const Threads& threads) {
  const Plan plan(args);
  const int64_t size = size_of(args.dtype), tiles = plan.tiles();
  const auto kernel = add_kernels(args.count * size).add[int(args.dtype)];
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; tile++) plan.add(tile, size, kernel);
  };
  if (threads.count == 1 || args.count <= kGrain) return body(0, tiles);
  threads.parallel_for(0, tiles, std::max(kGrain / (plan.tile_width * plan.tile_height), int64_t(1)), body);
}

}  // namespace torch_reductions::cpu::add
