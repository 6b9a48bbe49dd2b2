// The storage types of a recurrence: what its rungs on the CPU share.
#pragma once
#include "../../common/args.h"
#include "../convert.h"

namespace torch_reductions::cpu::recurrence {
namespace {

// body(std::type_identity<S>()) with the storage type; a recurrence has floating types only.
template <class Body>
constexpr void with_float(Dtype dtype, Body&& body) {
  with_storage(dtype, [&](auto tag) {
    if constexpr (!std::is_integral_v<typename decltype(tag)::type>) body(tag);
  });
}

// The offset of the first element that the recurrence takes in a line, and the step to the next one.
inline int64_t first_of(const RecurrenceArgs& args, int64_t outer, int64_t inner, const Strides& strides) {
  return outer * strides.outer + inner * strides.inner + (args.reverse ? (args.length - 1) * strides.length : 0);
}
inline int64_t step_of(const RecurrenceArgs& args, const Strides& strides) {
  return args.reverse ? -strides.length : strides.length;
}
inline Strides output_strides(const RecurrenceArgs& args) { return {args.length * args.inner, args.inner, 1}; }

}  // namespace
}  // namespace torch_reductions::cpu::recurrence
