// Operands of products as rows that begin at multiples of 16 bytes, which the TMA and 16-byte copies need: as they lie, or
// copied.
#pragma once
#include "../../../common/args.h"
#include "../../primitives/launch.h"
#include "../../primitives/tensor_map.h"
#include "../../primitives/wgmma.cuh"

namespace torch_reductions::cuda::matmul {

// Rows along k, or along m or n.
struct OperandLayout {
  MatrixBatch rows;
  Major major;
};
struct Operands {
  OperandLayout a, b;
};

// Bytes lie along k then. One launch copies the rows of both, and starts the next launch early (dependent.cuh); bytes that
// have to be transposed take one for each operand.
Operands pack(const MatmulArgs& args, Context& context);

// Was there such a launch?
inline bool packed(const MatmulArgs& args, const MatrixBatch& a, const MatrixBatch& b) {
  return a.data != args.a.data || b.data != args.b.data;
}

}  // namespace torch_reductions::cuda::matmul
