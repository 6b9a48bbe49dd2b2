// Products on tensor cores by mma.sync, as chosen by 110_tensor_core.cu and 140_ordered.cu.
#pragma once
#include "../../../common/args.h"
#include "../../primitives/launch.h"

namespace torch_reductions::cuda::matmul {

// Does the device have the instructions, and are these their types? float16, bfloat16, int8 and uint8, from 8.0 on.
bool tensor_core_runs(const MatmulArgs& args, const Context& context);

// Rows or columns of a result of which tensor_core (ladder.h) takes narrow tiles, made to read the other operand as
// fast as memory gives it: wgmma has nothing to gain there.
inline constexpr int64_t kNarrow = 16;
inline constexpr int kNarrowLines = 32, kNarrowDepthBytes = 256;  // of the other operand, in a stage of such a tile
inline constexpr int kNarrowBlocks = 2;                           // of a multiprocessor
inline bool has_few_rows(const MatmulArgs& args) { return args.m <= kNarrow && args.m <= args.n; }
// Is a result narrow, and are its operands ones that these tiles load in 16-byte pieces, or sooner than they are packed?
bool suits_narrow_tiles(const MatmulArgs& args, const Context& context);

// Is k long, and the result so small that each tile of few lines and columns has a multiprocessor for itself? Then the
// chain of steps is what takes time. Of float16 and bfloat16; operands that are not vectors are packed before, which takes
// longer than narrow tiles do where they have many lines.
inline constexpr int kLongLines = 16, kLongColumns = 8, kLongStages = 16;
inline constexpr int kLongBytes = kLongStages * ((kLongLines + kLongColumns) * kNarrowDepthBytes + 2 * 8);
// Of k, at least, where operands are vectors and where they are packed, which other kernels would do as well; and lines
// that are packed, at most, as a number and as a multiple of k.
inline constexpr int64_t kLongChain = 1024, kLongPackedChain = 160, kLongPacked = 2048, kLongPackedShare = 4;
bool suits_long_tiles(const MatmulArgs& args, const Context& context);

// Is k so short, and an operand one that the TMA cannot read, that a small tile of which all of k is loaded at once
// wins?
inline constexpr int kShallowBytes = 512;  // of k, at most
bool suits_shallow_tiles(const MatmulArgs& args);

// Is the code that the device runs newer than that for GPUs without the instructions, whose kernels are empty there?
bool tensor_core_compiled();

// T: Half, BFloat16, int8_t or uint8_t, instantiated in files of their own.
template <class T>
void launch_product(const MatmulArgs& args, Context& context);

}  // namespace torch_reductions::cuda::matmul
