#include "tensor_map.h"

#include <cuda_runtime.h>

#include "launch.h"

namespace torch_reductions::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, looked up at run time: the library is not linked with the driver, which may not be there.
Encode find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
        "cudaGetDriverEntryPointByVersion");
#else
  check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result),
        "cudaGetDriverEntryPoint");
#endif
  if (result != cudaDriverEntryPointSuccess || found == nullptr) fail("the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<Encode>(found);
}

CUtensorMapDataType map_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case Dtype::bfloat16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

}  // namespace

CUtensorMap map_of(const MatrixBatch& rows, Dtype dtype, int tile_rows) {
  static const Encode encode = find_encode();
  const cuuint64_t size = cuuint64_t(size_of(dtype));
  const cuuint64_t sizes[] = {cuuint64_t(rows.columns), cuuint64_t(rows.rows), cuuint64_t(rows.outer)};
  const cuuint64_t strides[] = {cuuint64_t(rows.row_stride) * size, cuuint64_t(rows.outer_stride) * size};  // bytes
  const cuuint32_t box[] = {cuuint32_t(kTileRowBytes / size), cuuint32_t(tile_rows), 1};
  const cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode(&map, map_type(dtype), 3, const_cast<void*>(rows.data), sizes, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) fail("the driver refuses a tensor map");
  return map;
}

}  // namespace torch_reductions::cuda
