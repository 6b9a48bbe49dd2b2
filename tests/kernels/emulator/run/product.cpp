#include "product.h"

#include <algorithm>
#include <cmath>

#include "../../../../csrc/common/ladder.h"
#include "../../../../csrc/cpu/matmul/ladder.h"
#include "../../../../csrc/cpu/matmul/output.h"

namespace emulator {

using namespace torch_reductions;

namespace {

constexpr int kHopperModel = 30, kTensorCores[] = {110, 120};  // the emulator's tensor cores are those of 9.0

void serial(int64_t begin, int64_t end, int64_t, const std::function<void(int64_t, int64_t)>& body) {
  body(begin, end);
}

// Elements of k in one chain; the values of the chains are added from left to right. docs/order.md
int64_t chunk_of(int rung, const MatmulArgs& args) {
  return rung == kMatmulAuto ? kProductChunk : std::max(args.k, int64_t(1));
}

template <class A>
A multiply_add(A a, A b, A c) {
  if constexpr (std::is_floating_point_v<A>) return std::fma(a, b, c);
  else return a * b + c;
}

template <class T, class A>
A element_of_product(const MatmulArgs& args, int64_t chunk, int64_t batch, int64_t i, int64_t j) {
  A total = 0;
  for (int64_t begin = 0; begin < args.k; begin += chunk) {
    A chain = 0;
    for (int64_t k = begin; k < std::min(begin + chunk, args.k); k++)
      chain = multiply_add(A(cpu::widen(*cpu::matmul::element_of<T>(args.a, batch, i, k))),
                           A(cpu::widen(*cpu::matmul::element_of<T>(args.b, batch, k, j))), chain);
    total = begin == 0 ? chain : total + chain;
  }
  return total;
}

}  // namespace

bool execute_order(int rung, int capability, const MatmulArgs& args) {
  const bool half = args.dtype == Dtype::float16 || args.dtype == Dtype::bfloat16;
  const bool on_tensor_cores = std::ranges::find(kTensorCores, rung) != std::end(kTensorCores);
  if (half && (on_tensor_cores || (rung == kMatmulAuto && capability >= 80)))
    return cpu::ladder::matmul(kHopperModel, args, {1, serial});
  const int64_t chunk = chunk_of(rung, args);
  with_product_types(args.dtype, args.output_dtype,
                     [&]<class T, class Out>(std::type_identity<T>, std::type_identity<Out>) {
                       for (int64_t batch = 0; batch < args.batch; batch++) {
                         for (int64_t i = 0; i < args.m; i++) {
                           for (int64_t j = 0; j < args.n; j++) {
                             const ProductOf<T> value = element_of_product<T, ProductOf<T>>(args, chunk, batch, i, j);
                             cpu::matmul::write_products<Out>(args, batch, i, j, 1, &value);
                           }
                         }
                       }
                     });
  return true;
}

}  // namespace emulator
