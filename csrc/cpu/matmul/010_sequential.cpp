// sequential
// Changes: nothing came before: this is what the other rungs are checked against.
// Costs:   a column of b is read again for each element: with large matrices every read misses the caches.
// Gains:   three loops that cannot be wrong.
// Order:   k ascending; product and sum are rounded separately, in the accumulator type.
// Needs:   any processor; any layout.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 3.
#include "ladder.h"
#include "output.h"

namespace torch_reductions::cpu::matmul {

void sequential(const MatmulArgs& args, const Threads&) {
  with_product_types(args.dtype, args.output_dtype, [&](auto storage, auto output) {
    using T = typename decltype(storage)::type;
    using A = ProductOf<T>;
    for (int64_t batch = 0; batch < args.batch; batch++) {
      for (int64_t i = 0; i < args.m; i++) {
        for (int64_t j = 0; j < args.n; j++) {
          A sum = 0;
          for (int64_t k = 0; k < args.k; k++) {
            sum += A(widen(*element_of<T>(args.a, batch, i, k))) * A(widen(*element_of<T>(args.b, batch, k, j)));
          }
          write_products<typename decltype(output)::type>(args, batch, i, j, 1, &sum);
        }
      }
    }
  });
}

}  // namespace torch_reductions::cpu::matmul
