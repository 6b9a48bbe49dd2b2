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
#include "hopper/pack.h"
#include "hopper/tiles.cuh"
#include "ladder.h"
#include "ordered/split_k.cuh"
#include "tensor/tensor_core.h"

namespace torch_reductions::cuda::matmul {
namespace {

// Tiles of the result, and how many cycles of a multiprocessor a step of k takes in a cluster: of the largest ones the
// tensor cores', of small ones the way of the operands from the L2. Without a cluster it takes longer by the part
// `alone` where every multiprocessor is busy.
struct Shape {
  int rows, columns, cycles;
  double alone;
};
constexpr Shape kPartsShape{128, 128, 490, .05};
constexpr Shape kShapes[] = {{128, 256, 820, .05}, {128, 128, 490, .05}, {64, 128, 350, .15}, {64, 64, 232, .15}};

// How a product is scheduled: in 2-CTA clusters or not, k whole or split into its chunks.
struct Schedule {
  Shape shape;
  int log_cluster;
  bool split_k;
};

int64_t tiles_of(const MatmulArgs& args, const Schedule& schedule) {
  return args.batch * ceil_div(args.m, int64_t(schedule.shape.rows << schedule.log_cluster)) *
         ceil_div(args.n, int64_t(schedule.shape.columns));
}

// Cycles that a 2-CTA cluster takes to start; it reads less from the L2.
constexpr double kClusterStart = 300;

// Cycles, about: the busiest multiprocessor multiplies one tile after another.
double time_of(const MatmulArgs& args, const Schedule& schedule, int64_t steps, int64_t chain, int64_t processors) {
  const int64_t pieces = schedule.split_k ? ceil_div(steps, chain) : 1;
  const int64_t tiles = tiles_of(args, schedule) * pieces;
  const int64_t rounds = ceil_div(tiles, std::max(processors >> schedule.log_cluster, int64_t(1)));
  const double cycles = double(rounds) * schedule.shape.cycles * (schedule.split_k ? chain : steps);
  const double fill = std::min(double(tiles) / processors, 1.);
  return (schedule.log_cluster ? cycles + kClusterStart : cycles * (1 + schedule.shape.alone * fill)) +
         (schedule.split_k ? fold_cycles(args, pieces, processors) : 0);
}

Schedule schedule_of(const MatmulArgs& args, int64_t steps, int64_t chain, const Context& context) {
  const int64_t processors = multiprocessors(context.device);
  Schedule best{};
  double least = INFINITY;
  for (const Shape& shape : kShapes) {
    for (const bool split_k : {false, true}) {
      for (const int log_cluster : {0, 1}) {
        if ((split_k && steps <= chain) || (log_cluster && (args.m <= shape.rows || processors < 2))) continue;
        const Schedule schedule{shape, log_cluster, split_k};
        const double time = time_of(args, schedule, steps, chain, processors);
        if (time < least) best = schedule, least = time;
      }
    }
  }
  return best;
}

template <class T, Major major_a, Major major_b, int M, int N, bool InParts = false>
void run(const MatmulArgs& args, const MatrixBatch& a, const MatrixBatch& b, const Schedule& schedule, int64_t steps,
         int64_t chain, Context& context) {
  const int log_cluster = schedule.log_cluster;
  const int64_t processors = multiprocessors(context.device);
  Plan plan{};
  plan.args = args;
  plan.log_cluster = log_cluster;
  plan.tiles_m = int(ceil_div(args.m, int64_t(M << log_cluster))), plan.tiles_n = int(ceil_div(args.n, int64_t(N)));
  plan.steps = plan.piece = int(steps), plan.chain = int(chain);
  plan.batches = int(args.batch);
  plan.a_batches = a.outer > 1, plan.b_batches = b.outer > 1;
  const CUtensorMap map_a = map_of(a, args.dtype, major_a == Major::k ? M : kStep<T>);
  const CUtensorMap map_b = map_of(b, args.dtype,
                                   major_b == Major::k ? N >> log_cluster
                                   : N == kRows        ? kStep<T> >> log_cluster
                                                       : kStep<T>);
  const auto start = [&](int64_t pieces) {
    const int64_t tiles = tiles_of(args, schedule) * pieces, size = size_of(plan.args.output_dtype);
    const auto vectorizable = [&](int64_t count) {
      return args.n % count == 0 && reinterpret_cast<uintptr_t>(plan.args.output) % (count * size) == 0;
    };
    plan.tiles = int(tiles);
    plan.convert_only = plan.args.alpha == 1 && plan.args.added.data == nullptr;
    plan.vec4 = vectorizable(4), plan.vec8 = vectorizable(8);
    const int64_t blocks = std::min(tiles, std::max(processors >> log_cluster, int64_t(1))) << log_cluster;
    if constexpr (InParts) {
      const int levels = std::bit_width(unsigned(args.parts - 1)) - kNearLevels;
      if (levels > 0)
        plan.totals = static_cast<uint4*>(context.workspace(size_t(levels) * blocks * M * N * sizeof(float)));
    } else if (plan.chain < plan.piece)
      plan.totals = static_cast<uint4*>(context.workspace(size_t(blocks) * M * N * sizeof(float)));
    launch_clusters(multiply_bulk_tiles<T, major_a, major_b, M, N, InParts>, 1 << log_cluster, packed(args, a, b),
                    blocks, kBlockThreads<M>, kSharedBytes<M>, context.stream, map_a, map_b, plan);
  };
  if (!schedule.split_k) return start(1);
  if constexpr (sizeof(T) == 2) {
    plan.args.output_dtype = Dtype::float32, plan.args.alpha = 1, plan.args.added.data = nullptr;
    plan.piece = plan.chain;
    const auto multiply = [&](int64_t first, int64_t count, float* partials) {
      plan.args.output = partials;
      plan.first = int(first * chain);
      start(count);
    };
    in_chunks<T>(args, context, multiply);
  }
}

template <class T, Major major_a, Major major_b>
void run_shape(const MatmulArgs& args, const MatrixBatch& a, const MatrixBatch& b, Context& context) {
  const int64_t steps = ceil_div(args.k, int64_t(kStep<T>));
  const int64_t chain = sizeof(T) == 2 ? kTensorChunk / kStep<T> : steps;  // of integers one is as good as several
  if constexpr (sizeof(T) == 2) {
    if (args.parts > 1) {
      const Schedule pair{kPartsShape, args.m > kPartsShape.rows && multiprocessors(context.device) > 1, false};
      return run<T, major_a, major_b, kPartsShape.rows, kPartsShape.columns, true>(args, a, b, pair, steps, chain,
                                                                                   context);
    }
  }
  const Schedule schedule = schedule_of(args, steps, chain, context);
  const auto run_of = [&]<int... I>(std::integer_sequence<int, I...>) {
    ((schedule.shape.rows == kShapes[I].rows && schedule.shape.columns == kShapes[I].columns
          ? run<T, major_a, major_b, kShapes[I].rows, kShapes[I].columns>(args, a, b, schedule, steps, chain, context)
          : void()),
     ...);
  };
  run_of(std::make_integer_sequence<int, int(std::size(kShapes))>());
}

template <class T>
void run_layout(const MatmulArgs& args, const OperandLayout& a, const OperandLayout& b, Context& context) {
  if constexpr (sizeof(T) == 1) return run_shape<T, Major::k, Major::k>(args, a.rows, b.rows, context);
  else if (a.major == Major::k && b.major == Major::k) run_shape<T, Major::k, Major::k>(args, a.rows, b.rows, context);
  else if (a.major == Major::k) run_shape<T, Major::k, Major::mn>(args, a.rows, b.rows, context);
  else if (b.major == Major::k) run_shape<T, Major::mn, Major::k>(args, a.rows, b.rows, context);
  else run_shape<T, Major::mn, Major::mn>(args, a.rows, b.rows, context);
}

// Is the kernel more than its empty body for other architectures? That one has no barriers in shared memory.
bool compiled() {
  static const bool found = code_of(multiply_bulk_tiles<Half, Major::k, Major::k, 128, 128, false>).static_shared > 0;
  return found;
}

}  // namespace

bool hopper_runs(const MatmulArgs& args, const Context& context) {
  return tensor_core_runs(args, context) && std::max({args.m, args.n, args.k}) <= INT32_MAX - 256 &&
         args.batch <= (1 << 30) / (ceil_div(args.m, int64_t(64)) * ceil_div(args.n, int64_t(64))) &&
         architecture(context.device) == 90 && compiled();
}

bool hopper_takes_parts(const MatmulArgs& args, const Context& context) {
  const int64_t part = ceil_div(args.k, int64_t(args.parts));
  const int64_t tiles =
      args.batch * ceil_div(args.m, int64_t(kPartsShape.rows)) * ceil_div(args.n, int64_t(kPartsShape.columns));
  return hopper_runs(args, context) && std::min(args.m, args.n) > kNarrow && part % kGroup == 0 &&
         part <= kTensorChunk && 2 * tiles >= multiprocessors(context.device);
}

void tensor_core_hopper(const MatmulArgs& args, Context& context) {
  if (!hopper_runs(args, context))
    fail("variant 'tensor_core_hopper' needs a GPU of compute capability 9.0 and code for 9.0a");
  if (args.k == 0) return one_element(args, context);  // nothing to copy, only +0 to store
  const auto [a, b] = pack(args, context);
  switch (args.dtype) {
    case Dtype::float16: return run_layout<Half>(args, a, b, context);
    case Dtype::bfloat16: return run_layout<BFloat16>(args, a, b, context);
    case Dtype::int8: return run_layout<int8_t>(args, a, b, context);
    default: return run_layout<uint8_t>(args, a, b, context);
  }
}

}  // namespace torch_reductions::cuda::matmul
