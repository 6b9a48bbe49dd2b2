// tensor_core
// Changes: a warp's instruction multiplies tiles of 16 x 16 by 16 x 8 (mma.sync), out of fragments that ldmatrix loads.
// Costs:   an order of its own: 16 products of float16 or bfloat16 are one sum. On 9.0 it reaches two thirds of the
//          rate that wgmma has. Where k is split into its chunks over blocks, a second launch adds these.
// Gains:   many times the rate of multiply-adds one by one; 16-byte copies (cp.async) fill several stages ahead. A few
//          results of a long k have the smallest tiles, and operands that are copied to whole vectors first.
// Order:   steps of 16 of k, ascending, as the device's tensor core adds them, on 9.0 as hopper_model does; chunks of
//          8192 are added left to right, docs/order.md. Bytes wrap, in any order.
// Needs:   8.0 and up; float16, bfloat16, int8, uint8; any layout, other than 16-byte pieces more slowly.
// See:     NVIDIA, PTX ISA, warp-level matrix instructions; tensor/kernel.cuh, tensor/narrow.cuh,
//          tensor/shallow.cuh, tensor/plan.cuh.
#include <algorithm>

#include "../../common/ceil_div.h"
#include "ladder.h"
#include "tensor/operand.h"
#include "tensor/tensor_core.h"

namespace torch_reductions::cuda::matmul {

bool tensor_core_runs(const MatmulArgs& args, const Context& context) {
  const bool half = args.dtype == Dtype::float16 || args.dtype == Dtype::bfloat16;
  return (half || args.dtype == Dtype::int8 || args.dtype == Dtype::uint8) && architecture(context.device) >= 80 &&
         tensor_core_compiled();
}

bool suits_shallow_tiles(const MatmulArgs& args) {
  const TensorOperand rows = rows_of(args), columns = columns_of(args);
  const int size = size_of(args.dtype);
  const auto lies_in_lines = [&](const TensorOperand& operand) {
    return in_lines(operand.width_stride, operand.k_stride, size);
  };
  const int64_t bytes = args.k * size, few = std::min(args.m, args.n), many = std::max(args.m, args.n);
  if (bytes == 0 || bytes > kShallowBytes || !lies_in_lines(rows) || !lies_in_lines(columns)) return false;
  // What larger tiles win by is that they read the operands less often, once these are packed, and store in vectors.
  const bool large = args.batch * args.m * args.n >= 2 << 20;
  if (rows.vectors && columns.vectors) return (bytes <= 32 && !large) || (bytes <= 128 && few <= kNarrow);
  const bool many_in_vectors = (args.m < args.n ? columns : rows).vectors;
  const bool packs_much = few <= 32 && args.batch * many >= 4096 && !(few <= kNarrow && many_in_vectors);
  return bytes <= 32 || (bytes <= 128 && !(large && args.n % 8 == 0)) || (bytes <= 256 && (!large || few <= 64)) ||
         packs_much;
}

bool suits_long_tiles(const MatmulArgs& args, const Context& context) {
  const int64_t few = std::min(args.m, args.n), many = std::max(args.m, args.n);
  if (size_of(args.dtype) != 2 || shared_memory(context.device) < kLongBytes) return false;
  const bool in_vectors = rows_of(args).vectors && columns_of(args).vectors;
  if (args.k < (in_vectors ? kLongChain : kLongPackedChain)) return false;
  const auto tiles = [&](int64_t columns, int64_t lines) {
    return args.batch * ceil_div(few, columns) * ceil_div(many, lines);
  };
  // Two tiles one after the other are as fast, where other kernels' tiles, and pieces of k, have to wait as well.
  const int64_t processors = multiprocessors(context.device);
  const bool others_wait = tiles(64, 64) * ceil_div(args.k, kTensorChunk) > processors;
  return (in_vectors || args.batch * many <= std::min(kLongPacked, kLongPackedShare * args.k)) &&
         tiles(kLongColumns, kLongLines) <= (others_wait ? 2 : 1) * processors;
}

bool suits_narrow_tiles(const MatmulArgs& args, const Context& context) {
  if (args.m > kNarrow && args.n > kNarrow) return false;
  const bool few_rows = has_few_rows(args);
  const bool many_in_vectors = (few_rows ? columns_of(args) : rows_of(args)).vectors;
  if (many_in_vectors && (!few_rows || rows_of(args).vectors)) return true;
  // About how many nanoseconds: a block waits for each stage that is shifted into place. To pack the operands takes a
  // launch, and their bytes, some of which go to memory and back; wgmma's chain is longer than that of mma.sync.
  const int64_t lines = few_rows ? args.n : args.m, processors = multiprocessors(context.device);
  const auto rounds = [&](int64_t tile, int64_t blocks) {
    return double(ceil_div(args.batch * ceil_div(lines, tile), blocks * processors));
  };
  const int64_t row = args.k * size_of(args.dtype);
  const double narrow = rounds(kNarrowLines, kNarrowBlocks) * (2700 + 680. * ceil_div(row, int64_t(kNarrowDepthBytes)));
  return narrow < 2500 + 2500 * rounds(128, 1) + .8 * row + (many_in_vectors ? 0 : 6e-4 * args.batch * lines * row);
}

void tensor_core(const MatmulArgs& args, Context& context) {
  if (!tensor_core_runs(args, context))
    fail("variant 'tensor_core' needs a GPU of compute capability 8.0 or later, and code compiled for 8.0 or later");
  switch (args.dtype) {
    case Dtype::float16: return launch_product<Half>(args, context);
    case Dtype::bfloat16: return launch_product<BFloat16>(args, context);
    case Dtype::int8: return launch_product<int8_t>(args, context);
    default: return launch_product<uint8_t>(args, context);
  }
}

}  // namespace torch_reductions::cuda::matmul
