// tensor_core_hopper
// Changes: wgmma in place of mma.sync: four warps multiply tiles where they lie in shared memory. Tiles are copied by
//          the TMA, which swizzles and pads with zeros; one or two warpgroups of a block multiply, another only loads;
//          blocks are persistent, and tiles are smaller where there are few results.
// Costs:   a GPU of 9.0 alone; operands whose addresses or rows are no multiples of 16 bytes are copied first, and
//          bytes that do not lie along k are transposed. Where k is split into its chunks, a second launch adds these.
// Gains:   no operand passes through registers, no thread that multiplies waits for memory: the tensor cores' full
//          rate.
// Order:   steps of the tensor core of 16 of k, ascending, in chains of 8192, folded from left to right; integers wrap.
// Needs:   9.0 exactly, compiled for 9.0a; float16, bfloat16, int8 and uint8; any layout.
// See:     PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation"; NVIDIA CUTLASS,
//          "Efficient GEMM", warp specialization.
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>

#include "../../common/ceil_div.h"
#include "hopper/pack.cuh"
#include "hopper/tiles.cuh"
#include "ladder.h"
#include "ordered/split_k.cuh"
#include "tensor/tensor_core.h"

namespace torch_reductions::cuda::matmul {
namespace {

struct OperandLayout {
  MatrixBatch rows;
  Major major;
};

int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Can the TMA read them?
bool reads(const MatrixBatch& rows, int size) {
  const int64_t row = rows.row_stride * size, outer = rows.outer_stride * size;
  return reinterpret_cast<uintptr_t>(rows.data) % kMapAlignment == 0 && row % kMapAlignment == 0 &&
         outer % kMapAlignment == 0 && rows.row_stride >= rows.columns && row < kMapStrideLimit &&
         outer < kMapStrideLimit;
}

// Rows in the workspace: padded to whole tile rows, unless they are so short that the padding would be most of them.
MatrixBatch packed(const MatrixBatch& like, int64_t columns, int64_t rows, int size, Context& context) {
  const int64_t stride = round_up(columns, (columns * size < kTileRowBytes ? kMapAlignment : kTileRowBytes) / size);
  void* const data = context.workspace(size_t(like.outer * rows * stride * size));
  return {data, columns, rows, like.outer, stride, rows * stride};
}

Packing packing(const MatrixBatch& from, const MatrixBatch& to, int size) {
  return {static_cast<const char*>(from.data),
          static_cast<char*>(const_cast<void*>(to.data)),
          from.columns * size,
          from.rows,
          from.row_stride * size,
          from.outer_stride * size,
          to.row_stride * size,
          to.outer_stride * size};
}

// The operand as it lies, as rows along k or along m or n, if the TMA can read it, otherwise a copy. Where it has one
// row, or one matrix serves all batches, the stride is free to choose.
OperandLayout prepare(const MatmulArgs& args, const Matrix& matrix, int64_t mn, int64_t mn_stride, int64_t k_stride,
                      Context& context) {
  const int size = size_of(args.dtype);
  const auto rows_of = [&](int64_t columns, int64_t rows, int64_t stride) -> MatrixBatch {
    if (rows == 1) stride = round_up(columns, kMapAlignment / size);
    const int64_t outer = matrix.batch_stride == 0 ? 1 : args.batch;
    return {matrix.data, columns, rows, outer, stride, outer == 1 ? rows * stride : matrix.batch_stride};
  };
  const bool along_k = k_stride == 1 || args.k == 1, along_mn = mn_stride == 1 || mn == 1;
  const OperandLayout as_k{rows_of(args.k, mn, mn_stride), Major::k}, as_mn{rows_of(mn, args.k, k_stride), Major::mn};
  if (along_k && reads(as_k.rows, size)) return as_k;
  if (along_mn && size == 2 && reads(as_mn.rows, size)) return as_mn;
  const OperandLayout from = along_k ? as_k : as_mn;
  if (along_k || size == 2) {
    const MatrixBatch to = packed(from.rows, from.rows.columns, from.rows.rows, size, context);
    const int64_t parts = ceil_div(from.rows.columns * size, int64_t(32 * kPackVectors * 16));
    const int64_t all = from.rows.outer * from.rows.rows * parts;
    launch(copy_rows, ceil_div(all, int64_t(kPackThreads / 32)), kPackThreads, 0, context.stream,
           packing(from.rows, to, size), parts, all);
    return {to, from.major};
  }
  const MatrixBatch to = packed(from.rows, from.rows.rows, from.rows.columns, size, context);
  const int64_t across = ceil_div(from.rows.columns, int64_t(kAcross)), down = ceil_div(from.rows.rows, int64_t(kDown));
  launch(transpose_bytes, from.rows.outer * across * down, kPackThreads, 0, context.stream,
         packing(from.rows, to, size), unsigned(across), unsigned(down));
  return {to, Major::k};
}

// Tiles of the result, and how many cycles of a multiprocessor a step of k takes: of the largest ones the tensor
// cores', of small ones the way of the operands from the L2.
struct Shape {
  int rows, columns, cycles;
};
constexpr Shape kPartsShape{128, 128, 512};
constexpr Shape kShapes[] = {{128, 256, 960}, {128, 128, 512}, {64, 128, 384}, {64, 64, 256}};

// How a product is scheduled: in 2-CTA clusters or not, k whole or split into its chunks.
struct Schedule {
  Shape shape;
  int log_cluster;
  bool split_k;
};

// 2-CTA clusters take kClusterStart cycles to start, but read less from the L2; without them a step takes longer by the
// part kAlone where every multiprocessor is busy.
constexpr double kClusterStart = 1500, kAlone = 0.15;

// Cycles, about: the busiest multiprocessor multiplies one tile after another.
double time_of(const MatmulArgs& args, const Schedule& schedule, int64_t processors) {
  const auto [rows, columns, step_cycles] = schedule.shape;
  const int64_t depth = schedule.split_k ? kTensorChunk : args.k, pieces = ceil_div(args.k, depth);
  const int64_t tiles = tiles_of(args.batch, args.m, args.n, rows << schedule.log_cluster, columns) * pieces;
  const int64_t rounds = ceil_div(tiles, std::max(processors >> schedule.log_cluster, int64_t(1)));
  const double cycles = double(rounds) * step_cycles * ceil_div(depth, int64_t(kTileRowBytes / size_of(args.dtype)));
  const double fill = std::min(double(tiles) / processors, 1.);
  return (schedule.log_cluster ? cycles + kClusterStart : cycles * (1 + kAlone * fill)) +
         (schedule.split_k ? fold_cycles(args, pieces, processors) : 0);
}

Schedule schedule_of(const MatmulArgs& args, const Context& context) {
  const int64_t processors = multiprocessors(context.device);
  const bool may_split = size_of(args.dtype) == 2 && args.k > kTensorChunk;  // integers have one chain
  Schedule best{};
  double least = INFINITY;
  for (const Shape& shape : kShapes) {
    for (const bool split_k : {false, true}) {
      for (const int log_cluster : {0, 1}) {
        if ((split_k && !may_split) || (log_cluster && (args.m <= shape.rows || processors < 2))) continue;
        const Schedule schedule{shape, log_cluster, split_k};
        const double time = time_of(args, schedule, processors);
        if (time < least) best = schedule, least = time;
      }
    }
  }
  return best;
}

template <class T, Major major_a, Major major_b, int M, int N, bool InParts = false>
void run(const MatmulArgs& args, const MatrixBatch& a, const MatrixBatch& b, const Schedule& schedule,
         Context& context) {
  using Tiles = BulkTiles<T, major_a, major_b, M, N, InParts>;
  const int log_cluster = schedule.log_cluster;
  const int64_t clusters = std::max(multiprocessors(context.device) >> log_cluster, 1);  // that run at the same time
  const CUtensorMap map_a = map_of(a, args.dtype, Tiles::box_rows_a());
  const CUtensorMap map_b = map_of(b, args.dtype, Tiles::box_rows_b(log_cluster));
  const auto start = [&](const MatmulArgs& product, const KPieces& k) {
    Plan plan{
        .args = product,
        .schedule = tile_schedule(args.batch, args.m, args.n, M << log_cluster, N, (2048 / M) >> log_cluster, k),
        .log_cluster = log_cluster,
        .a_batches = a.outer > 1,
        .b_batches = b.outer > 1,
        .vec4 = stores_vectors(product, 4),
        .vec8 = stores_vectors(product, 8),
        .convert_only = product.alpha == 1 && product.added.data == nullptr,
        .totals = nullptr,
    };
    const int64_t blocks = std::min(int64_t(plan.schedule.tiles), clusters) << log_cluster;
    const int waiting = InParts ? std::bit_width(unsigned(args.parts - 1)) - kNearLevels
                                : sizeof(T) == 2 && k.length > kTensorChunk;  // tiles of totals for each block
    if (waiting > 0)
      plan.totals = static_cast<Tiles::Totals*>(context.workspace(size_t(waiting) * blocks * M * N * sizeof(float)));
    launch_clusters(multiply_bulk_tiles<T, major_a, major_b, M, N, InParts>, 1 << log_cluster, blocks, Tiles::kThreads,
                    Tiles::kSharedBytes, context.stream, map_a, map_b, plan);
  };
  if constexpr (sizeof(T) == 2) {
    if (schedule.split_k) return in_chunks<T>(args, context, start);
  }
  start(args, {0, args.k, 1});
}

template <class T, Major major_a, Major major_b>
void run_shape(const MatmulArgs& args, const MatrixBatch& a, const MatrixBatch& b, Context& context) {
  if constexpr (sizeof(T) == 2) {
    constexpr Shape kShape = kPartsShape;
    const bool cluster = args.m > kShape.rows && multiprocessors(context.device) > 1;
    if (args.parts > 1)
      return run<T, major_a, major_b, kShape.rows, kShape.columns, true>(args, a, b, {kShape, cluster, false}, context);
  }
  const Schedule schedule = schedule_of(args, context);
  const auto run_of = [&]<int... I>(std::integer_sequence<int, I...>) {
    ((schedule.shape.rows == kShapes[I].rows && schedule.shape.columns == kShapes[I].columns
          ? run<T, major_a, major_b, kShapes[I].rows, kShapes[I].columns>(args, a, b, schedule, context)
          : void()),
     ...);
  };
  run_of(std::make_integer_sequence<int, int(std::size(kShapes))>());
}

template <class T>
void run_layout(const MatmulArgs& args, const OperandLayout& a, const OperandLayout& b, Context& context) {
  with_bool(a.major == Major::mn, [&](auto mn_a) {
    with_bool(b.major == Major::mn, [&](auto mn_b) {
      if constexpr (sizeof(T) == 2 || (!mn_a && !mn_b))
        run_shape<T, mn_a ? Major::mn : Major::k, mn_b ? Major::mn : Major::k>(args, a.rows, b.rows, context);
    });
  });
}

// Is the kernel more than its empty body for other architectures? That one has no barriers in shared memory.
bool compiled() {
  static const bool found =
      attributes_of(multiply_bulk_tiles<Half, Major::k, Major::k, 128, 128, false>).sharedSizeBytes > 0;
  return found;
}

}  // namespace

bool hopper_runs(const MatmulArgs& args, const Context& context) {
  const bool type = args.dtype == Dtype::float16 || args.dtype == Dtype::bfloat16 || args.dtype == Dtype::int8 ||
                    args.dtype == Dtype::uint8;
  const int64_t most = std::max({args.m, args.n, args.k});
  return type && most <= INT32_MAX - 256 && args.batch <= (1 << 30) / tiles_of(1, args.m, args.n, 64, 64) &&
         architecture(context.device) == 90 && compiled();
}

bool hopper_takes_parts(const MatmulArgs& args, const Context& context) {
  const int64_t part = ceil_div(args.k, int64_t(args.parts));
  const int64_t tiles = tiles_of(args.batch, args.m, args.n, kPartsShape.rows, kPartsShape.columns);
  return hopper_runs(args, context) && std::min(args.m, args.n) > kNarrow && part % kGroup == 0 &&
         part <= kTensorChunk && 2 * tiles >= multiprocessors(context.device);
}

void tensor_core_hopper(const MatmulArgs& args, Context& context) {
  if (!hopper_runs(args, context))
    fail("variant 'tensor_core_hopper' needs a GPU of compute capability 9.0 and code for 9.0a");
  if (args.k == 0) return one_element(args, context);  // nothing to copy, only +0 to store
  const OperandLayout a = prepare(args, args.a, args.m, args.a.row_stride, args.a.column_stride, context);
  const OperandLayout b = prepare(args, args.b, args.n, args.b.column_stride, args.b.row_stride, context);
  switch (args.dtype) {
    case Dtype::float16: return run_layout<Half>(args, a, b, context);
    case Dtype::bfloat16: return run_layout<BFloat16>(args, a, b, context);
    case Dtype::int8: return run_layout<int8_t>(args, a, b, context);
    default: return run_layout<uint8_t>(args, a, b, context);
  }
}

}  // namespace torch_reductions::cuda::matmul
