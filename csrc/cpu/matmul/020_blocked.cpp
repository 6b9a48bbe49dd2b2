// blocked
// Changes: the loops go over blocks: blocks of a and b stay in the cache until all of their products are computed.
// Costs:   each block of b is copied; sums are kept in memory, not in registers.
// Gains:   each element of a large matrix is read from memory once per block, not once per element of the result.
// Order:   k ascending; product and sum are rounded separately, in the accumulator type: sequential's bits.
// Needs:   any processor; any layout.
// See:     Lam, Rothberg and Wolf, The Cache Performance and Optimizations of Blocked Algorithms, 1991.
#include <algorithm>

#include "ladder.h"
#include "output.h"

namespace torch_reductions::cpu::matmul {
namespace {

constexpr int64_t kBlock = 64;  // rows, columns and k: two blocks of 8-byte numbers fit into the second-level cache

template <class T, class Out>
void multiply_block(const MatmulArgs& args, int64_t batch, int64_t i0, int64_t j0) {
  using A = ProductOf<T>;
  const int64_t rows = std::min(kBlock, args.m - i0), columns = std::min(kBlock, args.n - j0);
  A sums[kBlock][kBlock] = {}, b[kBlock][kBlock];
  for (int64_t k0 = 0; k0 < args.k; k0 += kBlock) {
    const int64_t depth = std::min(kBlock, args.k - k0);
    for (int64_t k = 0; k < depth; k++) {
      for (int64_t j = 0; j < columns; j++) b[k][j] = A(widen(*element_of<T>(args.b, batch, k0 + k, j0 + j)));
    }
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t k = 0; k < depth; k++) {
        const A a = A(widen(*element_of<T>(args.a, batch, i0 + i, k0 + k)));
        for (int64_t j = 0; j < columns; j++) sums[i][j] += a * b[k][j];
      }
    }
  }
  for (int64_t i = 0; i < rows; i++) write_products<Out>(args, batch, i0 + i, j0, columns, sums[i]);
}

}  // namespace

void blocked(const MatmulArgs& args, const Threads&) {
  with_product_types(args.dtype, args.output_dtype, [&](auto storage, auto output) {
    for (int64_t batch = 0; batch < args.batch; batch++) {
      for (int64_t i0 = 0; i0 < args.m; i0 += kBlock) {
        for (int64_t j0 = 0; j0 < args.n; j0 += kBlock) {
          multiply_block<typename decltype(storage)::type, typename decltype(output)::type>(args, batch, i0, j0);
        }
      }
    }
  });
}

}  // namespace torch_reductions::cpu::matmul
