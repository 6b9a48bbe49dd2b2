// sequential
// Changes: nothing came before: this is what every other rung is checked against.
// Costs:   each addition waits for the one before it: a few cycles an element.
// Gains:   ten lines that cannot be wrong.
// Order:   left to right, in the accumulator type.
// Needs:   any processor; contiguous rows.
// See:     the host loop of every textbook's first parallel scan.
#include "ladder.h"
#include "output.h"

namespace torch_reductions::cpu {

void sequential(const ScanArgs& args, const Threads&) {
  with_storage(args.dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    with_operator<S>(args.function, [&](auto op) {
      using Op = typename decltype(op)::type;
      for (int64_t row = 0; row < args.outer; row++) {
        const S* elements = static_cast<const S*>(args.input) + row * args.length;
        const auto place = [&](int64_t j) { return row * args.results + (args.reverse ? args.results - 1 - j : j); };
        auto total = Op::identity();
        if (args.exclusive) put_nothing<S>(args, place(0));
        for (int64_t k = 0; k + args.exclusive < args.results; k++) {
          const auto x = widen(elements[from_front(args, k)]);
          if constexpr (std::is_arithmetic_v<typename Op::Value>) {
            total = Op::combine(total, typename Op::Value(x));
          } else {
            const auto value = decltype(total.value)(x);
            total = Op::combine(total, {args.function == Scan::cummin ? flip(value) : value, k});
          }
          put<S>(args, place(k + args.exclusive), total);
        }
      }
    });
  });
}

}  // namespace torch_reductions::cpu
