// sequential
// Changes: nothing came before: this is what the other rungs are checked against.
// Costs:   the offset of every element is computed from its index, with one division per dim.
// Gains:   ten lines that cannot be wrong.
// Order:   alpha other + input, rounded once, in the accumulator type.
// Needs:   any processor; any layout.
// See:     Cheng, Grossman and McKercher, Professional CUDA C Programming, 2014, chapter 2: sumArraysOnHost.
#include "elements.h"
#include "ladder.h"

namespace torch_reductions::cpu::add {

void sequential(const AddArgs& args, const Threads&) {
  const bool either = args.dtype == Dtype::boolean;  // the sum of bools is an or
  with_storage(args.dtype, [&]<class T>(std::type_identity<T>) {
    using A = AddType<T>;
    const A alpha = factor_of<A>(args.alpha);
    for (int64_t i = 0; i < args.count; i++) {
      int64_t rest = i, of_input = 0, of_other = 0;
      for (int d = 0; d < args.dims; rest /= args.sizes[d++]) {
        of_input += rest % args.sizes[d] * args.input_strides[d];
        of_other += rest % args.sizes[d] * args.other_strides[d];
      }
      const A a = A(widen(static_cast<const T*>(args.input)[of_input]));
      const A b = A(widen(static_cast<const T*>(args.other)[of_other]));
      const A sum = either ? A(a != A(0) || (b != A(0) && alpha != A(0))) : sum_of(a, alpha, b);
      static_cast<T*>(args.output)[i] = narrow<T>(sum);
    }
  });
}

}  // namespace torch_reductions::cpu::add
