// Shared by the two textbook rungs: contiguous rows, folded from left to right.
#pragma once
#include "ladder.h"
#include "output.h"

namespace torch_reductions::cpu::reduce {

// One element as an operator's value.
template <class Op, class S>
typename Op::Value value_of(S element, int64_t index, bool flipped) {
  using Value = typename Op::Value;
  if constexpr (std::is_arithmetic_v<Value>) {
    return Value(widen(element));
  } else {
    const auto value = decltype(Value::value)(widen(element));
    return {flipped ? flip(value) : value, index};
  }
}

// The fold of the elements [begin, end) of a row, from left to right.
template <class Op, class S>
typename Op::Value fold_part(const S* row, int64_t begin, int64_t end, bool flipped) {
  typename Op::Value total = Op::identity();
  for (int64_t k = begin; k < end; k++) total = Op::combine(total, value_of<Op>(row[k], k, flipped));
  return total;
}

// body(std::type_identity<Op>(), rows) with the operator of the function and the input as its storage type.
template <class Body>
void with_rows(const ReduceArgs& args, Body&& body) {
  if (args.input_dtype == Dtype::boolean) {
    return with_operator<uint8_t>(args.function, [&](auto op) { body(op, static_cast<const Bool*>(args.input)); });
  }
  with_storage(args.input_dtype, [&](auto storage) {
    using S = typename decltype(storage)::type;
    with_operator<S>(args.function, [&](auto op) { body(op, static_cast<const S*>(args.input)); });
  });
}

}  // namespace torch_reductions::cpu::reduce
