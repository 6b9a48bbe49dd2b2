// ordered
// Changes: both factors are packed into panels, in the order in which a register tile of sums reads them; vectors and
//          threads. This is what auto runs.
// Costs:   packing, which matters where a factor is multiplied with a few rows or columns only.
// Gains:   each load feeds many multiply-adds, and the same bits for any layout, processor and number of threads:
//          float32, float64 and integers also on the GPU.
// Order:   chunks of 512, one chain of fused multiply-adds each; chunks from left to right; parts of k, each begun
//          anew, are joined by a balanced tree (docs/order.md).
// Needs:   any processor; AVX2 and AVX-512, with VNNI and BF16, are used where available.
// See:     ordered_kernels.h, the vector code; Goto and van de Geijn, Anatomy of High-Performance Matrix
//          Multiplication, 2008. This file splits a call into tiles for the threads.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <new>

#include "../../common/ceil_div.h"
#include "../processor.h"
#include "ladder.h"
#include "ordered.h"

namespace torch_reductions::cpu::matmul {
namespace {

constexpr int64_t kMostRows = 1024, kMostColumns = 1024;  // of a tile, whose columns are packed for a chunk at a time
constexpr int64_t kMostSums = int64_t(1) << 17;           // of a tile of few rows, or of parts
constexpr int64_t kMostWaitingRows = 512;                 // of a tile of parts
constexpr int64_t kSmallResult = int64_t(1) << 16;        // elements of one that is split along k
constexpr size_t kMostValues = size_t(1) << 30;           // bytes of its chunks
constexpr double kThreadProducts = 1 << 19;               // multiply-adds that are worth a thread
constexpr int64_t kSmallBytes = 32768;                    // of a matrix that is prefetched
constexpr size_t kSmallWorkspace = size_t(1) << 16;       // bytes, enough for one panel of each factor
constexpr int64_t kPartsPerThread = 8;                    // at most, where the tiles cannot be shared equally

#ifdef __x86_64__
// Whether pairs of bfloat16 pay: where columns are packed, or are transposed anyway.
bool pairs_pay(const MatmulArgs& args) {
  const int64_t k_stride = args.m < args.n ? args.b.row_stride : args.a.column_stride;  // of the factor of more lanes
  return std::min(args.m, args.n) > kSkinnyRows || k_stride == 1;
}
#endif

const MatmulKernels& kernels_of([[maybe_unused]] const MatmulArgs& args) {
#ifdef __x86_64__
  static constexpr const MatmulKernels* kCompiled[] = {&matmul_baseline, &matmul_avx2, &matmul_avx512};
  static const bool bfloat16_pairs = extensions().bf16 && has_ordered_bfloat16_pairs();
  const bool small_integers = args.dtype >= Dtype::int8 && args.dtype <= Dtype::int16;
  if (small_integers && extensions().vnni) return matmul_avx512vnni;
  if (args.dtype == Dtype::bfloat16 && bfloat16_pairs && pairs_pay(args)) return matmul_avx512bf16;
  return *kCompiled[int(processor())];
#else
  return matmul_baseline;
#endif
}

const MatmulKernel& kernel_of(const MatmulArgs& args) {
  const MatmulKernels& kernels = kernels_of(args);
  return (args.dtype == args.output_dtype ? kernels.own : kernels.wide)[int(args.dtype)];
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
std::unique_ptr<void, Free> allocate(size_t bytes) {
  void* const memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!memory) throw std::bad_alloc();
  return std::unique_ptr<void, Free>(memory);
}

// The tile size, a multiple of `unit`, that splits `size` into `parts`.
int64_t share(int64_t size, int64_t parts, int64_t unit) { return ceil_div(ceil_div(size, parts), unit) * unit; }

// Splits a call into tiles of rows by columns of each batch.
struct Plan {
  const MatmulKernel& kernel;
  ProductTile whole;  // of batch 0
  int64_t chunks, row_tile, column_tile;
  int levels;  // of totals that wait: of chunks, and of parts

  Plan(const MatmulArgs& args, const MatmulKernel& kernel) : kernel(kernel) {
    const Factor a{args.a.data, args.a.batch_stride, args.a.row_stride, args.a.column_stride, args.m};
    const Factor b{args.b.data, args.b.batch_stride, args.b.column_stride, args.b.row_stride, args.n};
    // Vectors are filled with columns: rows and columns are swapped where that leaves clearly fewer lanes empty.
    const int64_t lanes = kernel.columns / 2;
    const auto filled = [&](int64_t m, int64_t n) { return m * ceil_div(n, lanes) * lanes; };
    const bool swapped = filled(args.n, args.m) < filled(args.m, args.n) / 8 * 7;
    whole = {&args, swapped, swapped ? b : a, swapped ? a : b, 0, 0, 0, 0, 0};
    whole.row_count = whole.rows.lanes, whole.column_count = whole.columns.lanes;
    const int64_t part = ceil_div(args.k, args.parts), before = args.parts - 1;  // parts, other than the last one
    chunks =
        std::max<int64_t>(before * ceil_div(part, kernel.chunk) + ceil_div(args.k - before * part, kernel.chunk), 1);
    levels = chunks > 1 ? std::bit_width(unsigned(args.parts)) : 0;
    row_tile = whole.row_count, column_tile = whole.column_count;
  }

  int64_t row_tiles() const { return ceil_div(whole.row_count, row_tile); }
  int64_t column_tiles() const { return ceil_div(whole.column_count, column_tile); }
  int64_t tasks() const { return whole.args->batch * row_tiles() * column_tiles(); }

  ProductTile tile(int64_t task) const {
    ProductTile tile = whole;
    tile.row = task / column_tiles() % row_tiles() * row_tile;
    tile.column = task % column_tiles() * column_tile;
    tile.batch = task / column_tiles() / row_tiles();
    tile.row_count = std::min(row_tile, whole.row_count - tile.row);
    tile.column_count = std::min(column_tile, whole.column_count - tile.column);
    return tile;
  }

  // Enough for any tile: the tiles of the last row may be lower, and a low one can need more of one kind of memory.
  size_t workspace_bytes() const {
    const size_t first = kernel.workspace_bytes(tile(0), levels);
    return std::max(first, kernel.workspace_bytes(tile((row_tiles() - 1) * column_tiles()), levels));
  }

  // Chooses tiles for so many threads: the same number for each thread, or many per thread.
  void choose_tiles(int64_t threads) {
    const int64_t rows = whole.row_count, columns = whole.column_count;
    const bool waits = levels > 1;  // then a tile has several totals, which should stay near
    const int64_t most_rows = waits ? kMostWaitingRows : kMostRows;
    int64_t down = ceil_div(rows, most_rows);
    int64_t across = ceil_div(columns, std::max(waits ? 0 : kMostColumns, kMostSums / std::min(rows, most_rows)));
    for (;;) {
      row_tile = std::min(rows, share(rows, down, kernel.rows));
      column_tile = std::min(columns, share(columns, across, kernel.columns));
      if (tasks() % threads == 0 || tasks() >= kPartsPerThread * threads) return;
      const bool wide = column_tile > kernel.columns, high = row_tile > kernel.rows;
      if (!wide && !high) return;
      if (wide && (!high || column_tile >= row_tile)) across++;
      else down++;
    }
  }
};

// Prefetches a small matrix of the next batch into the second-level cache: a product begins with packing, which would
// wait for memory. Inlined, because GCC drops a call to a function that does nothing but prefetch.
inline __attribute__((always_inline)) void prefetch_factor(const Factor& factor, int64_t batch, int64_t k,
                                                           int64_t size) {
  const int64_t bytes =
      ((factor.lanes - 1) * factor.lane_stride + std::max<int64_t>(k - 1, 0) * factor.k_stride + 1) * size;
  const char* const first = static_cast<const char*>(factor.data) + batch * factor.batch_stride * size;
  if (bytes > kSmallBytes) return;
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(first + i, 0, 2);
}

}  // namespace

void ordered(const MatmulArgs& args, const Threads& threads) {
  Plan plan(args, kernel_of(args));
  const double products = double(args.batch) * args.m * args.n * std::max<int64_t>(args.k, 1);
  const int64_t useful = int64_t(std::clamp(products / kThreadProducts, 1.0, double(threads.count)));
  // Calls body(part, begin, end) for each part of the tasks, as many parts as useful threads.
  const auto in_parallel = [&](int64_t tasks, auto body) {
    const int64_t parts = std::min(tasks, useful);
    const auto run = [&](int64_t from, int64_t to) {
      for (int64_t part = from; part < to; part++) body(part, part * tasks / parts, (part + 1) * tasks / parts);
    };
    if (parts == 1) return run(0, 1);
    threads.parallel_for(0, parts, 1, run);
  };

  const size_t sums = plan.kernel.sums_bytes(plan.whole);
  if (args.batch < useful && args.m * args.n <= kSmallResult && plan.chunks >= useful &&
      sums <= kMostValues / plan.chunks) {
    const size_t bytes = plan.kernel.workspace_bytes(plan.whole, 0);
    const auto memory = allocate(useful * bytes), values = allocate(plan.chunks * sums);
    for (ProductTile tile = plan.whole; tile.batch < args.batch; tile.batch++) {
      in_parallel(plan.chunks, [&](int64_t part, int64_t begin, int64_t end) {
        plan.kernel.multiply(tile, {begin, end, values.get()}, static_cast<char*>(memory.get()) + part * bytes);
      });
      plan.kernel.fold(tile, plan.chunks, values.get());
    }
    return;
  }

  plan.choose_tiles(useful);
  // On the stack for a small product: a block of this size makes malloc tidy up, which may take as long as the product.
  alignas(64) char small[kSmallWorkspace];
  const size_t bytes = plan.workspace_bytes(), needed = std::min(plan.tasks(), useful) * bytes;
  const auto large = needed > sizeof small ? allocate(needed) : nullptr;
  char* const memory = large ? static_cast<char*>(large.get()) : small;
  in_parallel(plan.tasks(), [&](int64_t part, int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; task++) {
      if (task + 1 < end && plan.tasks() == args.batch) {
        for (const Factor& factor : {plan.whole.rows, plan.whole.columns}) {
          prefetch_factor(factor, task + 1, args.k, size_of(args.dtype));
        }
      }
      plan.kernel.multiply(plan.tile(task), {0, plan.chunks, nullptr}, memory + part * bytes);
    }
  });
}

}  // namespace torch_reductions::cpu::matmul
