// The interface between 140_ordered.cpp, which plans, and the vector code, which is compiled per processor.
#pragma once
#include <cstddef>

#include "../../common/args.h"

namespace torch_reductions::cpu::matmul {

inline constexpr int kSkinnyRows = 4;  // of a tile whose columns are read in place

// One factor as lanes, the rows of a or the columns of b, of k elements each; strides in elements.
struct Factor {
  const void* data;
  int64_t batch_stride, lane_stride, k_stride, lanes;
};

// A tile of one batch's result. The lanes of a vector are neighbouring columns of the tile. If `swapped`, the tile's
// rows are columns of the result, and its columns are rows.
struct ProductTile {
  const MatmulArgs* args;
  bool swapped;
  Factor rows, columns;
  int64_t batch, row, column, row_count, column_count;
};

// The chunks [begin, end) of k: those of the first part, of the second, and so on. Without `values` these are all
// chunks, and the result is written. Otherwise the sums of each chunk are stored at values + chunk * sums_bytes(tile),
// in the kernel's own order.
struct ProductChunks {
  int64_t begin, end;
  void* values;
};

struct MatmulKernel {
  int rows, columns;  // of the tile in registers: a tile's sizes should be multiples of them
  int64_t chunk;      // of k
  size_t (*workspace_bytes)(const ProductTile& tile, int levels);  // of totals that wait
  size_t (*sums_bytes)(const ProductTile& tile);
  void (*multiply)(const ProductTile& tile, const ProductChunks& chunks, void* workspace);
  // Adds the sums of all chunks of a part from left to right, joins the parts, in place, and writes the result.
  void (*fold)(const ProductTile& tile, int64_t chunks, void* values);
};

struct MatmulKernels {
  MatmulKernel own[kDtypes], wide[kDtypes];  // by the factors' dtype; the result has the same one, or float32 or int32
};
extern const MatmulKernels matmul_baseline, matmul_avx2, matmul_avx512, matmul_avx512vnni, matmul_avx512bf16;

// Whether this processor's product of pairs of bfloat16 has the bits of two steps of the chain: found by trying it.
bool has_ordered_bfloat16_pairs();

}  // namespace torch_reductions::cpu::matmul
