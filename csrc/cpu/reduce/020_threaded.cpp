// threaded
// Changes: the elements, or the rows where there are enough of them, are distributed among the threads.
// Costs:   the order, and with it a float's last bits, depends on the number of threads.
// Gains:   as many chains of additions at once as there are threads.
// Order:   one part per thread, left to right; then the parts, left to right.
// Needs:   any processor.
// See:     the same idea on the GPU, where a part is a block: neighbored_divergent.
#include <algorithm>
#include <vector>

#include "fold_rows.h"

namespace torch_reductions::cpu::reduce {

void threaded(const ReduceArgs& args, const Threads& threads) {
  const int64_t parts = std::min<int64_t>(std::max(threads.count, 1), args.length);
  with_rows(args, [&](auto op, const auto* input) {
    using Op = typename decltype(op)::type;
    const bool flipped = args.function == Function::argmin;
    if (args.outer >= parts) {
      threads.parallel_for(0, args.outer, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++) {
          const auto total = fold_part<Op>(input + row * args.length, 0, args.length, flipped);
          write(args, row, 1, &total);
        }
      });
      return;
    }
    for (int64_t row = 0; row < args.outer; row++) {
      std::vector<typename Op::Value> partials(parts);
      threads.parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; part++) {
          const int64_t length = args.length / parts, extra = args.length % parts;  // the first `extra` get one more
          const int64_t from = part * length + std::min(part, extra);
          partials[part] = fold_part<Op>(input + row * args.length, from, from + length + (part < extra), flipped);
        }
      });
      auto total = partials[0];
      for (int64_t part = 1; part < parts; part++) total = Op::combine(total, partials[part]);
      write(args, row, 1, &total);
    }
  });
}

}  // namespace torch_reductions::cpu::reduce
