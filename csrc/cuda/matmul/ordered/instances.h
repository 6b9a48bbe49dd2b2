// The files that instantiate the kernels, of some types each: they compile in parallel.
#pragma once
#include "../../../common/args.h"
#include "../../primitives/launch.h"

namespace torch_reductions::cuda::matmul {

void multiply_float32(const MatmulArgs& args, Context& context);
void multiply_float64(const MatmulArgs& args, Context& context);
void multiply_int32(const MatmulArgs& args, Context& context);
void multiply_int64(const MatmulArgs& args, Context& context);
void multiply_halves(const MatmulArgs& args, Context& context);          // float16 and bfloat16
void multiply_small_integers(const MatmulArgs& args, Context& context);  // of 8 and 16 bits

// In parts. Of float32 and float64 the tiles take them where there are enough, and each part is whole stages of k.
bool tiles_take_parts(const MatmulArgs& args, const Context& context);
// Of any floating type.
void multiply_parts(const MatmulArgs& args, Context& context);

}  // namespace torch_reductions::cuda::matmul
