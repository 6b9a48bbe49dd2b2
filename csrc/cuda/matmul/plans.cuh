// What the plans have in common, which choose the kernel of a product on the host.
#pragma once
#include "../../common/args.h"
#include "../../common/ceil_div.h"
#include "../primitives/launch.h"

namespace torch_reductions::cuda::matmul {

// body(std::bool_constant<value>()), for an argument of a kernel's template.
template <class Body>
void with_bool(bool value, Body&& body) {
  if (value) body(std::true_type());
  else body(std::false_type());
}

inline int64_t tiles_of(int64_t batch, int64_t height, int64_t width, int64_t rows, int64_t columns) {
  return batch * ceil_div(height, rows) * ceil_div(width, columns);
}

// May `count` neighbours of a row be stored at once?
inline bool stores_vectors(const MatmulArgs& args, int64_t count) {
  return args.n % count == 0 && reinterpret_cast<uintptr_t>(args.output) % (count * size_of(args.output_dtype)) == 0;
}

// Of the code that the device runs, which tell whether it is more than an empty body for other architectures.
template <class... Parameters>
cudaFuncAttributes attributes_of(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
#ifdef __CUDACC__
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
#else  // the emulator has whole kernels
  attributes.ptxVersion = 90, attributes.sharedSizeBytes = 1;
#endif
  return attributes;
}

}  // namespace torch_reductions::cuda::matmul
