#include "product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

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

// Tree(n) = B(2^k) + Tree(n - 2^k), 2^k the largest power of two below n, of element `at` of n planes.
template <class A>
A tree(const std::vector<std::vector<A>>& planes, size_t first, size_t n, size_t at) {
  if (n == 1) return planes[first][at];
  const size_t left = std::bit_ceil(n) / 2;
  return tree(planes, first, left, at) + tree(planes, first + left, n - left, at);
}

// Each part is a product of its own.
template <class T, class Out>
void execute_parts(int rung, int capability, const MatmulArgs& args) {
  using A = ProductOf<T>;
  const int64_t length = (args.k + args.parts - 1) / args.parts;
  std::vector<std::vector<A>> planes;
  for (int64_t begin = 0; begin < args.k; begin += length) {
    planes.emplace_back(size_t(args.batch * args.m * args.n));
    MatmulArgs part = args;
    part.parts = 1, part.k = std::min(length, args.k - begin);
    part.a.data = static_cast<const T*>(args.a.data) + begin * args.a.column_stride;
    part.b.data = static_cast<const T*>(args.b.data) + begin * args.b.row_stride;
    part.alpha = 1, part.added.data = nullptr;
    part.output_dtype = sizeof(A) == 4 ? Dtype::float32 : Dtype::float64, part.output = planes.back().data();
    execute_order(rung, capability, part);
  }
  for (int64_t row = 0; row < args.batch * args.m; row++) {
    for (int64_t j = 0; j < args.n; j++) {
      const A value = tree(planes, 0, planes.size(), size_t(row * args.n + j));
      cpu::matmul::write_products<Out>(args, row / args.m, row % args.m, j, 1, &value);
    }
  }
}

}  // namespace

bool execute_order(int rung, int capability, const MatmulArgs& args) {
  if (args.parts > 1) {
    with_product_types(args.dtype, args.output_dtype,
                       [&]<class T, class Out>(std::type_identity<T>, std::type_identity<Out>) {
                         if constexpr (std::is_floating_point_v<ProductOf<T>>)
                           execute_parts<T, Out>(rung, capability, args);
                       });
    return true;
  }
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
