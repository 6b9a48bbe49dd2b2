// The GPU's launchers of the reduce ladder.
#pragma once
#include "../../common/args.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::reduce {

// threads: of a block; 0 for as many as suit the row.
void neighbored_divergent(const ReduceArgs& args, Context& context, int threads);
void neighbored_compact(const ReduceArgs& args, Context& context, int threads);
void interleaved_pairs(const ReduceArgs& args, Context& context, int threads);
void unrolled_last_warp(const ReduceArgs& args, Context& context, int threads);
void unrolled_complete(const ReduceArgs& args, Context& context, int threads);
void shared_divergent(const ReduceArgs& args, Context& context, int threads);
void shared_bank_conflicts(const ReduceArgs& args, Context& context, int threads);
void shared_sequential(const ReduceArgs& args, Context& context, int threads);
void shared_first_add(const ReduceArgs& args, Context& context, int threads);
void shared_last_warp(const ReduceArgs& args, Context& context, int threads);
void shared_complete(const ReduceArgs& args, Context& context, int threads);
void warp_shuffle(const ReduceArgs& args, Context& context, int threads);
void single_pass(const ReduceArgs& args, Context& context, int threads);

void unrolled_blocks_2(const ReduceArgs& args, Context& context);
void unrolled_blocks_4(const ReduceArgs& args, Context& context);
void unrolled_blocks_8(const ReduceArgs& args, Context& context);
void cub_reduce(const ReduceArgs& args, Context& context);
void ordered(const ReduceArgs& args, Context& context);

}  // namespace torch_reductions::cuda::reduce

namespace torch_reductions::cuda::ladder {

// Runs the rung of that number, 0 for auto. False where the GPU has none.
bool reduce(int64_t variant, const ReduceArgs& args, Context& context);

}  // namespace torch_reductions::cuda::ladder
