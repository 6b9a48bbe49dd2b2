// ordered
// Changes: the order of operations is a function of the length alone. This is what auto runs.
// Costs:   shuffles: visible where the elements are in the first-level cache, not where they come from memory.
// Gains:   the same bits for any layout, processor and number of threads, and on the GPU.
// Order:   Fold(length), docs/order.md.
// Needs:   any processor; AVX2 and AVX-512 are used where available.
// See:     ordered_tree.h, the vector code; this file splits a call into strips for the threads.
#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "../../common/ceil_div.h"
#include "../processor.h"
#include "ladder.h"
#include "ordered.h"
#include "output.h"

namespace torch_reductions::cpu::reduce {
namespace {

constexpr int64_t kShort = 64;  // shorter rows of argmax are computed as columns
constexpr int64_t kTasksPerThread = 8;

// How a length is split into blocks: tiles of one power of two, then one block per binary digit of the rest. A single
// tile of the whole length means no split.
struct Split {
  int64_t length, tile;

  int64_t tiles() const { return length / tile; }
  int64_t count() const { return tiles() + std::popcount(uint64_t(length % tile)); }

  // The elements [begin, begin + size) of block b.
  std::pair<int64_t, int64_t> block(int64_t b) const {
    if (b < tiles()) return {b * tile, tile};
    int64_t begin = tiles() * tile, rest = length % tile;
    for (;; b--) {
      const int64_t size = std::bit_floor(uint64_t(rest));
      if (b == tiles()) return {begin, size};
      begin += size, rest -= size;
    }
  }
};

template <class Op>
void merge(typename Op::Value* left, const typename Op::Value* right, int64_t count) {
  for (int64_t i = 0; i < count; i++) left[i] = Op::combine(left[i], right[i]);
}

// Combines folds[block][output] into Fold(length) in folds[0]: a tree for each binary digit of the number of tiles,
// then these and the blocks of the rest from left to right.
template <class Op>
void merge_blocks(const Split& split, typename Op::Value* folds, int64_t outputs) {
  const int64_t tiles = split.tiles();
  const auto row = [&](int64_t block) { return folds + block * outputs; };
  for (int64_t half = 1; 2 * half <= tiles; half *= 2) {
    for (int64_t b = 0; b + 2 * half <= tiles; b += 2 * half) merge<Op>(row(b), row(b + half), outputs);
  }
  for (int64_t b = std::bit_floor(uint64_t(tiles)); b > 0 && b < tiles; b += std::bit_floor(uint64_t(tiles - b))) {
    merge<Op>(row(0), row(b), outputs);
  }
  for (int64_t b = std::max<int64_t>(tiles, 1); b < split.count(); b++) merge<Op>(row(0), row(b), outputs);
}

// Splits a call into strips of outputs: each is one task, or one task per block where there are too few for the
// threads.
struct Plan {
  const ReduceArgs& args;
  bool columns;
  int64_t width, strips;  // of each outer index

  explicit Plan(const ReduceArgs& args) : args(args) {
    const bool short_argmax = args.function >= Function::argmax && args.length < kShort;
    columns = args.inner > 1 && (args.length_stride != 1 || short_argmax) &&
              (args.inner_stride <= args.length_stride || short_argmax);
    width = columns ? kStrip : std::clamp(2 * kGrain / args.length / 16 * 16, int64_t(1), kStrip);
    strips = ceil_div(args.inner, width);
  }

  int64_t tasks() const { return args.outer * strips; }
  int64_t elements() const { return args.outer * args.inner * args.length; }

  // Blocks of at least kGrain elements, as many as give every thread its tasks; or a single one.
  Split split(int threads) const {
    const int64_t wanted = kTasksPerThread * threads;
    const int64_t least = std::max<int64_t>(kGrain / std::min(width, args.inner), 1);
    if (threads == 1 || elements() <= kGrain || tasks() >= wanted) return {args.length, args.length};
    int64_t tile = std::bit_floor(uint64_t(args.length));
    while (tile / 2 >= least && tasks() * (args.length / tile) < wanted) tile /= 2;
    return {args.length, tile};
  }

  // The outputs [first, first + outputs) of a task, and their elements from `begin` on as a strip.
  int64_t outputs(int64_t task) const { return std::min(width, args.inner - task % strips * width); }
  int64_t first(int64_t task) const { return task / strips * args.inner + task % strips * width; }
  ReduceStrip strip(int64_t task, int64_t begin, int64_t length) const {
    const int64_t offset =
        task / strips * args.outer_stride + task % strips * width * args.inner_stride + begin * args.length_stride;
    return {static_cast<const char*>(args.input) + offset * size_of(args.input_dtype),
            outputs(task),
            length,
            args.inner_stride,
            args.length_stride,
            begin,
            columns};
  }
};

template <class Op>
void run(const ReduceArgs& args, const Threads& threads) {
  using Value = typename Op::Value;
  const FoldStrip fold = reduce_kernels().fold[int(args.function)][int(args.input_dtype)];
  const Plan plan(args);
  const Split split = plan.split(threads.count);
  const int64_t outputs = args.outer * args.inner, tasks = plan.tasks(), blocks = split.count();

  if (blocks == 1) {
    const auto body = [&](int64_t begin, int64_t end) {
      Value folds[kStrip];
      for (int64_t task = begin; task < end; task++) {
        fold(plan.strip(task, 0, args.length), folds);
        write(args, plan.first(task), plan.outputs(task), folds);
      }
    };
    if (tasks == 1 || threads.count == 1 || plan.elements() <= kGrain) return body(0, tasks);
    return threads.parallel_for(0, tasks, std::max<int64_t>(kGrain * tasks / plan.elements(), 1), body);
  }

  const auto folds = std::make_unique_for_overwrite<Value[]>(blocks * outputs);
  threads.parallel_for(0, tasks * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t task = i / blocks, block = i % blocks;
      const auto [first, length] = split.block(block);
      fold(plan.strip(task, first, length), &folds[block * outputs + plan.first(task)]);
    }
  });
  merge_blocks<Op>(split, folds.get(), outputs);
  write(args, 0, outputs, folds.get());
}

}  // namespace

const ReduceKernels& reduce_kernels() {
#ifdef __x86_64__
  static constexpr const ReduceKernels* kCompiled[] = {&reduce_baseline, &reduce_avx2, &reduce_avx512};
  return *kCompiled[int(processor())];
#else
  return reduce_baseline;
#endif
}

void ordered(const ReduceArgs& args, const Threads& threads) {
  ReduceArgs view = args;
  if (view.inner == 1) std::swap(view.outer, view.inner), std::swap(view.outer_stride, view.inner_stride);
  with_storage(view.input_dtype, [&](auto storage) {
    with_operator<typename decltype(storage)::type>(view.function,
                                                    [&](auto op) { run<typename decltype(op)::type>(view, threads); });
  });
}

}  // namespace torch_reductions::cpu::reduce
